# SPDX-License-Identifier: Apache-2.0
# zsh -f completed.zsh FOLDER LINE: what a user of zsh is offered behind LINE, in a shell of its own.
zmodload zsh/zpty
zpty shell zsh -f -i
setup="PROMPT=; fpath=(${(q)1} \$fpath); autoload -Uz compinit; compinit -u -D"
setup+="; bindkey '^I' list-choices; LISTMAX=1000; echo rea''dy"
zpty -w shell $setup
zpty -r shell said '*ready*'
zpty -w -n shell "$2"$'\t'
# It has no end that could be seen: half a second without a word.
text=
for ((quiet = 0; quiet < 25; ++quiet)); do
  while zpty -r -t shell part; do
    text+=$part
    quiet=0
  done
  sleep 0.02
done
print -r -- "$text"
zpty -d shell
