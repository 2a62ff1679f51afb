# SPDX-License-Identifier: Apache-2.0
# Completion of spolia(1) for fish.

function __spolia_of
    __fish_seen_subcommand_from $argv
end

complete -c spolia -n __fish_use_subcommand -f -a info -d 'what is in a store'
complete -c spolia -n __fish_use_subcommand -f -a check -d 'compare checksums and indexes'
complete -c spolia -n __fish_use_subcommand -f -a dump -d 'write tables as text'
complete -c spolia -n __fish_use_subcommand -f -a load -d 'read what dump wrote'
complete -c spolia -n __fish_use_subcommand -f -a backup -d 'copy a store'
complete -c spolia -n __fish_use_subcommand -f -a restore -d 'make a store out of a backup'
complete -c spolia -n __fish_use_subcommand -f -a salvage -d 'save what is whole of a damaged store'
complete -c spolia -n __fish_use_subcommand -f -a top -d 'show what a running program does'
complete -c spolia -n __fish_use_subcommand -l version -d 'print the version'
complete -c spolia -s h -l help -d 'print what the command takes'
complete -c spolia -n 'not __fish_use_subcommand' -l config -r -d 'options from this TOML file'
complete -c spolia -n 'not __fish_use_subcommand' -l progress -x -a 'auto always never' -d 'show a bar'
complete -c spolia -n '__spolia_of info check dump backup' -l nice -x -d 'how far to lower the priority'
complete -c spolia -n '__spolia_of info' -l hash -d 'a hash of each table\'s rows'
complete -c spolia -n '__spolia_of info salvage top' -l json -d 'JSON'
complete -c spolia -n '__spolia_of dump load' -l format -x -a 'csv json' -d 'of the text'
complete -c spolia -n '__spolia_of dump load' -l table -x -d 'only this table'
complete -c spolia -n '__spolia_of load' -l schema -r -d 'schema.json of a dump'
complete -c spolia -n '__spolia_of load' -l on-conflict -x -a 'fail skip replace' -d 'rows whose key is there'
complete -c spolia -n '__spolia_of load' -l batch -x -d 'rows of a transaction'
complete -c spolia -n '__spolia_of load' -l resume -d 'go on after an earlier load'
complete -c spolia -n '__spolia_of load' -l all-or-nothing -d 'undo it unless all of it succeeds'
complete -c spolia -n '__spolia_of load' -l start-over -d 'forget how far an earlier load was'
complete -c spolia -n '__spolia_of load' -l durability -x -a 'none async sync' -d 'while it is loaded'
complete -c spolia -n '__spolia_of salvage' -l dry-run -d 'make nothing'
complete -c spolia -n '__spolia_of top' -l interval -x -d 'seconds between two readings'
complete -c spolia -n '__spolia_of top' -l times -x -d 'how many readings'
