# Tables of the algorithms' times, one for each shape of the links, and how much longer what the
# model chose takes than the best: awk -F'|' -f algorithms-table.awk FILE..., whose lines are
# SHAPE|HOSTS|ALGORITHM|BYTES|US|CHOSEN.

BEGIN {
    FS = "|"
    algorithms = split("gather doubling direct", algorithm, " ")
}

# An algorithm that cannot be had is another one in its place.
$3 == "auto" {
    chosen[$1, $2, $4] = $6
}

$3 == $6 {
    us[$1, $2, $4, $3] = $5
}

{
    if (!($1 in shapes)) {
        shapes[$1] = ++shape_count
        shape[shape_count] = $1
    }
    if (!($2 in seen)) {
        seen[$2] = 1
        hosts[++host_count] = $2
    }
    if (!($4 in sizes)) {
        sizes[$4] = ++size_count
        size[size_count] = $4
    }
}

# "**0.43** 0.90 1.02", in ms; what was chosen is bold. Notes the regret.
function cell(links, count, bytes,    i, text, key, best, own) {
    for (i = 1; i <= algorithms; i++) {
        key = links SUBSEP count SUBSEP bytes SUBSEP algorithm[i]
        if (!(key in us)) {
            text = text " -"
            continue
        }
        own = sprintf(chosen[links, count, bytes] == algorithm[i] ? " **%.2f**" : " %.2f",
            us[key] / 1000)
        text = text own
        best = best == "" || us[key] + 0 < best ? us[key] + 0 : best
    }
    own = us[links, count, bytes, chosen[links, count, bytes]] / best
    regrets[++regret_count] = own
    if (own > worst) {
        worst = own
        worst_at = links ", " count " hosts, " bytes " bytes"
    }
    return substr(text, 2)
}

function median(    i, j, swap) {
    for (i = 2; i <= regret_count; i++) {
        for (j = i; j > 1 && regrets[j] < regrets[j - 1]; j--) {
            swap = regrets[j]
            regrets[j] = regrets[j - 1]
            regrets[j - 1] = swap
        }
    }
    return regrets[int((regret_count + 1) / 2)]
}

END {
    for (s = 1; s <= shape_count; s++) {
        printf "\n| %s |", shape[s]
        for (h = 1; h <= host_count; h++) {
            printf " %d hosts |", hosts[h]
        }
        printf "\n|---|"
        for (h = 1; h <= host_count; h++) {
            printf "---|"
        }
        printf "\n"
        for (b = 1; b <= size_count; b++) {
            printf "| %d |", size[b]
            for (h = 1; h <= host_count; h++) {
                printf " %s |", cell(shape[s], hosts[h], size[b])
            }
            printf "\n"
        }
    }
    printf "\nregret: median %.2f, at most %.2f (%s), of %d\n", median(), worst, worst_at,
        regret_count
}
