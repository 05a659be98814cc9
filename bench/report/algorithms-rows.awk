# From a sweep of tutti-bench and what it explained, a line for each size: ALGORITHM|BYTES|US|CHOSEN.
# awk -f jsonrow.awk -f tabletext.awk -f algorithms-rows.awk -v algorithm=NAME ROWS LOG

/^\{/ {
    us[member($0, "bytes")] = member($0, "tutti_us")
}

/^ +[0-9]/ {
    bytes = $1
}

/^# .*messages, / {
    sub(/.*messages, /, "")
    sub(/;.*/, "")
    printf "%s|%s|%s|%s\n", algorithm, bytes, us[bytes], $0
}
