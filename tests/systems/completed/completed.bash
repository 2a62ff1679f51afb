# SPDX-License-Identifier: Apache-2.0
# bash completed.bash FILE LINE: what a user of bash is offered behind LINE.
source "$1"
read -ra COMP_WORDS <<< "$2"
[[ $2 == *' ' ]] && COMP_WORDS+=('')
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_spolia
printf '%s\n' "${COMPREPLY[@]}"
