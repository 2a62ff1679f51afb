# SPDX-License-Identifier: Apache-2.0
# Completion of spolia(1) for bash.

_spolia() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]}
  local choices=
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    choices="info check dump load backup restore salvage top --help --version"
    COMPREPLY=($(compgen -W "$choices" -- "$word"))
    return
  fi
  case $before in
    --progress) choices="auto always never" ;;
    --format) choices="csv json" ;;
    --on-conflict) choices="fail skip replace" ;;
    --durability) choices="none async sync" ;;
    --nice | --table | --batch | --interval | --times) return ;;
  esac
  if [[ -z $choices && $word == -* ]]; then
    choices="--help --config --progress"
    case $command in
      info) choices+=" --nice --hash --json" ;;
      check | backup) choices+=" --nice" ;;
      dump) choices+=" --nice --format --table" ;;
      load)
        choices+=" --table --format --schema --on-conflict --batch --resume --all-or-nothing"
        choices+=" --start-over --durability"
        ;;
      salvage) choices+=" --dry-run --json" ;;
      top) choices+=" --interval --times --json" ;;
    esac
  fi
  if [[ -n $choices ]]; then
    COMPREPLY=($(compgen -W "$choices" -- "$word"))
  else
    compopt -o filenames 2>/dev/null
    COMPREPLY=($(compgen -f -- "$word"))
  fi
}

complete -F _spolia spolia
