# Reading the rows that tutti-bench writes: included by the other awk programs.

# The value of a member, without quotes; "" when it is missing or null.
function member(row, key,    at) {
    if (!match(row, "\"" key "\":(\"[^\"]*\"|\\[[^]]*\\]|[^,}]*)")) {
        return ""
    }
    at = substr(row, RSTART + length(key) + 3, RLENGTH - length(key) - 3)
    gsub(/"/, "", at)
    return at == "null" ? "" : at
}
