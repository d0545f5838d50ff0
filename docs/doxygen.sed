# What Doxygen is shown of rte.h, line for line. The first comment is plain text, in columns.
1s,^/[*] rte.h: ,/** @file rte.h @brief ,
2s,.*,@verbatim,
3,/^ [*][/]$/{
    s,^ [*][/]$,@endverbatim */,
    s,^ [*] ,,
    s,^ [*]$,,
}
s,^/// Threads: ,/// @n@b Threads: ,
