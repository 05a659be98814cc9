# Completion of tuttirun for bash, filled in by tutti-pages when tutti is built.
# shellcheck shell=bash disable=SC2154 # _tuttirun_flags

# tutti-pages: completion
# tutti-pages: end

_tuttirun()
{
    local line=${COMP_LINE:0:COMP_POINT} cur=${COMP_WORDS[COMP_CWORD]}
    local word flag="" REPLY="" prefix="" i
    local -a words
    COMPREPLY=()
    [[ $cur == [=:]* ]] && cur="" # behind these bash begins anew
    # Not COMP_WORDS, which is split at = and : as well.
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    word=${words[${#words[@]} - 1]}
    for ((i = 1; i < ${#words[@]} - 1; i++)); do
        REPLY="" flag=${words[i]}
        case $flag in
        --) i=$((i + 1)) && break ;;
        -?*=*) ;;
        -?*) _tuttirun_takes "$flag" && i=$((i + 1)) ;;
        *) break ;;
        esac
    done
    if ((i < ${#words[@]} - 1)); then
        _tuttirun_files "$word" "$cur" # arguments of the program
    elif ((i > ${#words[@]} - 1)) && [[ $flag != -- ]]; then
        _tuttirun_value "$word" "$cur"
    elif [[ $flag == --help || $flag == -h ]]; then
        mapfile -t COMPREPLY < <(compgen -W "parameters all $_tuttirun_flags" -- "$word")
    elif [[ $word == -*=* && $flag != -- ]]; then
        _tuttirun_takes "${word%%=*}"
        [[ $cur == -*=* ]] && prefix=${word%%=*}=
        _tuttirun_value "${word#*=}" "${cur#"$prefix"}" "$prefix"
    elif [[ $word == -* && $flag != -- ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$_tuttirun_flags" -- "$word")
    else
        mapfile -t COMPREPLY < <(compgen -c -- "$word" | sort -u)
        ((${#COMPREPLY[@]} > 0)) || _tuttirun_files "$word" "$cur"
    fi
}

# _tuttirun_value WORD CUR [PREFIX]: values of the flag that $REPLY is of
_tuttirun_value()
{
    case $REPLY in
    @file) _tuttirun_files "$@" ;;
    @host) mapfile -t COMPREPLY < <(compgen -A hostname -- "$1") ;;
    @any | '') ;;
    *) mapfile -t COMPREPLY < <(compgen -P "${3:-}" -W "$REPLY" -- "$1") ;;
    esac
}

# _tuttirun_files WORD CUR [PREFIX]: files, without what bash holds to be words before
_tuttirun_files()
{
    local before="" i
    [[ $1 == *"$2" ]] && before=${1%"$2"}
    mapfile -t COMPREPLY < <(compgen -f -- "$1")
    for i in "${!COMPREPLY[@]}"; do
        COMPREPLY[i]=${3:-}${COMPREPLY[i]#"$before"}
    done
    compopt -o filenames 2>/dev/null || true
}

complete -F _tuttirun tuttirun
