# Completion for fish: commands, options, states, and files where a file is asked for.

set -l commands run check health status list complete release key
set -l none "not __fish_seen_subcommand_from $commands"

complete -c onlyonce -f
complete -c onlyonce -n $none -a run -d 'relay, in the foreground'
complete -c onlyonce -n $none -a check -d 'check the configuration'
complete -c onlyonce -n $none -a health -d 'ask the running process whether it is healthy'
complete -c onlyonce -n $none -a status -d 'what became of a key, as JSON'
complete -c onlyonce -n $none -a list -d 'the keys on record'
complete -c onlyonce -n $none -a complete -d 'record that the work of a key is done'
complete -c onlyonce -n $none -a release -d 'forget keys, so that their next message is new'
complete -c onlyonce -n $none -a key -d 'the key that a message would get'

complete -c onlyonce -l help -s '?' -d 'tell more'
complete -c onlyonce -l usage -d 'a short usage message'
complete -c onlyonce -l version -s V -d 'print the version'
complete -c onlyonce -n "not $none" -l config -s c -r -F -d 'configuration file'
complete -c onlyonce -n '__fish_seen_subcommand_from check' -l connect -d 'also reach the servers'
complete -c onlyonce -n '__fish_seen_subcommand_from list' -l state -x -a 'pending forwarded completed parked' -d 'only these'
complete -c onlyonce -n '__fish_seen_subcommand_from complete' -l result -x -d 'what came of it, as JSON'
complete -c onlyonce -n '__fish_seen_subcommand_from release' -l force -d 'pending ones, too'
for option in app-id correlation-id exchange header message-id routing-key type
    complete -c onlyonce -n '__fish_seen_subcommand_from key' -l $option -x
end
