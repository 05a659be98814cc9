# Makes a manual page of what a program prints for --help:
#   PROGRAM --help | awk -v name=PROGRAM -v summary=TEXT -v version=0.1.0 -f program_page.awk
# Lines are `usage:`, headings that end in a colon, options or words with their text behind two
# blanks, and paragraphs.

function roff(text) {
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    return (text ~ /^[.']/ ? "\\&" : "") text
}

function tagged(tag, text) {
    sub(/^ +/, "", tag)
    print ".TP\n\\fB" roff(tag) "\\fP"
    if (text != "")
        print roff(text)
    pending = 0
}

BEGIN {
    printf(".TH %s 1 \"\" \"tutti %s\" \"tutti\"\n.SH NAME\n%s \\- %s\n", toupper(name), version,
        name, summary)
}
/^usage: / {
    print ".SH SYNOPSIS\n.nf\n" roff(substr($0, 8))
    in_usage = 1
    next
}
in_usage && /^$/ { print ".fi\n.SH DESCRIPTION"; in_usage = 0; next }
in_usage { sub(/^ {1,7}/, ""); print roff($0); next }
/^$/ { pending = 1; next }
/^[A-Z][A-Za-z, ]*:$/ { print ".SS " roff(substr($0, 1, length($0) - 1)); pending = 0; next }
/^          / { sub(/^ +/, ""); print roff($0); next }
/^ / {
    if (match($0, /^ +[^ ]+( [^ ]+)*  +/))
        tagged(substr($0, 1, RLENGTH), substr($0, RSTART + RLENGTH))
    else if (match($0, /^ +--[a-z-]+ [A-Z]+ /))
        tagged(substr($0, 1, RLENGTH), substr($0, RSTART + RLENGTH))
    else
        tagged($0, "")
    next
}
{
    if (pending)
        print ".PP"
    pending = 0
    print roff($0)
}
END { print ".SH SEE ALSO\n.BR tuttirun (1),\n.BR tutti (3)" }
