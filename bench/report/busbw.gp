# Draws what busbw.awk made: gnuplot -e "data='FILE'; picture='FILE.svg'" busbw.gp
set terminal svg size 800,480 font "sans-serif,13" background "white"
set output picture
set title "Allreduce of float32 within a host"
set xlabel "bytes"
set ylabel "bus bandwidth, 10^9 bytes per second"
set logscale x 2
set format x "%.0b%BB"
set yrange [0:*]
set grid
set key right top
set datafile missing "?"
plot data using 1:5 with lines dashtype 2 linewidth 2 title "limit: the kernel alone", \
    data using 1:2 with linespoints title "tutti, arena memory", \
    data using 1:3 with linespoints title "tutti, private memory", \
    data using 1:4 with linespoints title "raw MPI"
