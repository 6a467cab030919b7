# shellcheck shell=bash
# Completion for bash: commands, options, states, and files where a file is asked for. Routes and keys are not guessed.

_onlyonce() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  local command='' options='--help --usage --version' i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
    run | check | health | status | list | complete | release | key)
      command=${COMP_WORDS[i]}
      break
      ;;
    esac
  done
  # Bash parts --state=x into three words.
  if [ "$current" = = ]; then
    current=
  elif [ "$previous" = = ]; then
    previous=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  case $previous in
  -c | --config)
    compopt -o filenames
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
    return
    ;;
  --state)
    mapfile -t COMPREPLY < <(compgen -W 'pending forwarded completed parked' -- "$current")
    return
    ;;
  esac
  [ -z "$command" ] || options="--config $options"
  case $command in
  '')
    mapfile -t COMPREPLY < <(compgen -W "run check health status list complete release key $options" -- "$current")
    return
    ;;
  check) options="--connect $options" ;;
  list) options="--state $options" ;;
  complete) options="--result $options" ;;
  release) options="--force $options" ;;
  key) options="--app-id --correlation-id --exchange --header --message-id --routing-key --type $options" ;;
  esac
  if [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
  fi
}

complete -F _onlyonce onlyonce
