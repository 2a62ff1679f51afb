# SPDX-License-Identifier: Apache-2.0
# fish completed.fish FILE LINE: what a user of fish is offered behind LINE.
source $argv[1]
complete -C $argv[2] | string replace -r '\t.*' ''
