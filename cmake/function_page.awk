# Makes a manual page of a page of docs/reference/functions:
#   awk -v version=0.1.0 -v index_page=README.md -f function_page.awk allreduce.md
# The page's heading has the names, the index what they are for. Its first block is the
# synopsis, and what is before it the description. Knows the Markdown that these pages use.

# The name under which a page of the same folder is installed, too.
function name_of(page) {
    sub(/\.md$/, "", page)
    return page == "README" ? "tutti" : "tutti_" page
}

function plain(text) {
    gsub(/\\/, "\\e", text)
    return text
}

# Characters that roff would change, in what a reader may copy.
function code(text) {
    text = plain(text)
    gsub(/-/, "\\-", text)
    gsub(/'/, "\\(aq", text)
    gsub(/`/, "\\(ga", text)
    gsub(/~/, "\\(ti", text)
    gsub(/\^/, "\\(ha", text)
    return text
}

function link(text, where,    name) {
    sub(/#.*/, "", where)
    if (where !~ /^[a-z_A-Z]+\.md$/)
        return words(text)
    name = "\\fB" name_of(where) "\\fP(3)"
    if (text ~ /^tutti_/ && text !~ /,/)
        return name
    return words(text) (text ~ /^tutti_/ ? "" : " (" name ")")
}

# Code, emphasis and links; text may have several lines.
function words(text,    out, inner, where) {
    out = ""
    while (match(text, /`[^`]*`|\*\*[^*]+\*\*|\*[A-Za-z][^*]*\*|\[[^]]*\]\([^)]*\)/)) {
        out = out plain(substr(text, 1, RSTART - 1))
        inner = substr(text, RSTART, RLENGTH)
        text = substr(text, RSTART + RLENGTH)
        if (inner ~ /^`/) {
            out = out "\\fB" code(substr(inner, 2, length(inner) - 2)) "\\fP"
        } else if (inner ~ /^\*\*/) {
            out = out "\\fB" plain(substr(inner, 3, length(inner) - 4)) "\\fP"
        } else if (inner ~ /^\*/) {
            out = out "\\fI" plain(substr(inner, 2, length(inner) - 2)) "\\fP"
        } else {
            where = inner
            sub(/^.*\]\(/, "", where)
            sub(/\)$/, "", where)
            sub(/^\[/, "", inner)
            sub(/\]\([^)]*\)$/, "", inner)
            out = out link(inner, where)
        }
    }
    return out plain(text)
}

# Lines that begin like a request are none; leading blanks would begin a paragraph.
function put(text,    lines, count, i) {
    count = split(text, lines, "\n")
    for (i = 1; i <= count; i++) {
        sub(/^ +/, "", lines[i])
        print (lines[i] ~ /^[.']/ ? "\\&" : "") lines[i]
    }
}

# The paragraph or entry that has been read.
function flush_text(    end) {
    if (text == "")
        return
    if (entry && match(text, /^`[^`]*`(, `[^`]*`)*: /)) {
        end = RLENGTH
        print ".TP"
        put(words(substr(text, 1, end - 2)))
        put(words(substr(text, end + 1)))
    } else {
        if (entry || !after_heading)
            print (entry ? ".IP \\(bu 2" : ".PP")
        put(words(text))
    }
    text = ""
    after_heading = 0
}

function heading(name) {
    flush_text()
    print ".SH " toupper(name == "Returns" ? "return value" : name == "Example" ? "examples" : name)
    after_heading = 1
    entry = 0
}

function block_line(line) {
    line = code(line)
    return (line ~ /^[.']/ ? "\\&" : "") line
}

# The declarations, which a page has behind its description, and the header that has them.
function synopsis_of(page,    line, block, header, inside) {
    header = "tutti/tutti.h"
    while ((getline line < page) > 0) {
        if (line ~ /^#include <tutti\/mpi/)
            header = "tutti/mpi.h"
        if (line ~ /^```/)
            inside = line ~ /fragment/
        else if (inside)
            block = block block_line(line) "\n"
    }
    close(page)
    return ".SH SYNOPSIS\n.nf\n#include <" header ">\n\n" block ".fi\n"
}

FNR == 1 {
    names = substr($0, 3)
    first = names
    sub(/,.*/, "", first)
    base = FILENAME
    sub(/.*\//, "", base)
    summary = "collective communication for data-parallel training"
    if (base == "README.md") {
        names = first = "tutti"
    } else {
        while ((getline row < index_page) > 0)
            if (index(row, "](" base ") |")) {
                summary = row
                sub(/^.*\) \| /, "", summary)
                sub(/ \|$/, "", summary)
            }
        synopsis = synopsis_of(FILENAME)
    }
    printf(".TH %s 3 \"\" \"tutti %s\" \"tutti\"\n.nh\n.SH NAME\n%s \\- %s\n", toupper(first),
        version, names, words(summary))
    printf("%s", synopsis)
    heading("description")
    next
}

/^```c fragment/ { skipped = 1; next }
/^```/ && skipped { skipped = 0; next }
skipped { next }
/^```/ && inside { inside = 0; print ".fi\n.RE"; next }
inside { print block_line($0); next }
/^```/ {
    flush_text()
    inside = 1
    print ".RS 4\n.nf"
    next
}
/^## / { heading(substr($0, 4)); next }
/^\|[-| ]*$/ { next }
/^\| *(status|field|argument) *\|/ { next }
/^\|/ {
    flush_text()
    count = split($0, cell, / *\| */)
    print ".TP"
    put(words(cell[2]))
    if (count > 4)
        put("(" words(cell[3]) ")")
    put(words(cell[count - 1]))
    after_heading = 0
    next
}
/^\* / { flush_text(); entry = 1; text = substr($0, 3); next }
/^$/ { flush_text(); entry = 0; next }
{ text = text (text == "" ? "" : "\n") $0 }
END { flush_text() }
