# SPDX-License-Identifier: MIT
# curves: compare's picture. Set from outside: kind (png or svg), picture, curves (the data), sets (how many peers), what
# (what is the same for all points), over (what is not: size or ranks), collective
# (with its type), machine.
if (kind eq "svg") { set terminal svg size 1280,560 dynamic enhanced font "sans,11" background "white" }
if (kind eq "png") { set terminal pngcairo size 1280,560 enhanced font "sans,11" }
set output picture
set multiplot layout 1,2 title sprintf("%s in place, %s\n%s", collective, what, machine) noenhanced
set key left top noenhanced
set grid
set logscale x 2
if (over eq "size") { set format x "%.0b%B"; set xlabel "size, bytes" } else { set xlabel "ranks" }
set logscale y
set ylabel "time of the slowest rank, median, microseconds"
plot for [i = 0:sets - 1] curves index i using 1:2 with linespoints title columnheader(1)
unset logscale y
set yrange [0:*]
set ylabel "bus bandwidth, GB/s"
plot for [i = 0:sets - 1] curves index i using 1:3 with linespoints notitle
unset multiplot
