# Draws agreement over ranks: gnuplot -e "folder='DIR'; picture='FILE.svg'" scale.gp
set terminal svg size 800,620 font "sans-serif,13" background "white"
set output picture
set title "Agreement on 161 tensors, from the last rank's submission until all know (model)"
set xlabel "ranks"
set ylabel "microseconds"
set logscale xy
set grid
set key outside below vertical maxrows 5 left
plot folder."/scale-gather_us.dat" with linespoints title "Horovod's scheme: gather at rank 0, names not cached (excluding the cycle)", \
    folder."/scale-bits_us.dat" with linespoints title "Horovod's scheme: bit vector, cached (excluding the cycle of 1 ms)", \
    folder."/scale-slow_us.dat" with lines dashtype 2 title "tutti slow, max-plus", \
    folder."/scale-slow.dat" with linespoints title "tutti slow, simulated", \
    folder."/scale-planned.dat" with linespoints title "tutti planned, simulated"
