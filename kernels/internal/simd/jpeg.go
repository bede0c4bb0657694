package simd

// Transform is one of libjpeg's inverse cosine transforms.
type Transform int

// The transforms of eight by eight coefficients. They round differently.
const (
	AccurateTransform Transform = iota // with 32-bit products
	FastTransform                      // all in 16 bits
)

// pictureKernels are the vector kernels for JPEG files. Their numbers of samples are positive multiples of sampleTurn, those of pixels
// positive multiples of pixelTurn.
type pictureKernels struct {
	inverse        [2]func(dst *uint8, stride int, block, quanta *int16)
	inverseTwo     [2]func(dst, second *uint8, stride int, block, quanta *int16)
	upsampleBoth   func(dst, near, far *uint8, n int)
	upsampleAcross func(dst, row *uint8, n int)
	repeatAcross   func(dst, row *uint8, n int)
	colours        func(dst, y, cb, cr *uint8, n int)
}

const (
	sampleTurn = 16
	pixelTurn  = 32
)

// InverseDCT multiplies a block of coefficients, row by row, by its quanta, transforms it, and writes eight rows of eight samples to dst,
// stride apart. It clears the block. Products and sums wrap around at 16 bits; results are clamped.
func InverseDCT(t Transform, dst []uint8, stride int, block, quanta *[64]int16) {
	_, _ = dst[7*stride+7], dst[stride]
	if k := active.pictures; k != nil {
		k.inverse[t](&dst[0], stride, &block[0], &quanta[0])
		return
	}
	inversePortable(t, dst, stride, block, quanta)
}

// InverseDCTs is InverseDCT for two blocks with the same quanta, which go to dst and second.
func InverseDCTs(t Transform, dst, second []uint8, stride int, blocks *[2][64]int16, quanta *[64]int16) {
	if k := active.pictures; k != nil {
		_, _, _ = dst[7*stride+7], second[7*stride+7], dst[stride]
		k.inverseTwo[t](&dst[0], &second[0], stride, &blocks[0][0], &quanta[0])
		return
	}
	InverseDCT(t, dst, stride, &blocks[0], quanta)
	InverseDCT(t, second, stride, &blocks[1], quanta)
}

func inversePortable(t Transform, dst []uint8, stride int, block, quanta *[64]int16) {
	for i, q := range quanta {
		block[i] *= q
	}
	turn, shift := accurateTurn, 0
	if t == FastTransform {
		turn, shift = fastTurn, 5
	}
	for i := range 8 {
		turn(block[i:], 8, 0)
	}
	for y := range 8 {
		row := block[8*y:][:8]
		turn(row, 1, 1)
		for x, v := range row {
			dst[y*stride+x] = uint8(min(max(v>>shift, -128), 127)) ^ 0x80
		}
	}
	*block = [64]int16{}
}

// fastTurn transforms the eight numbers v[0], v[step] and so on.
func fastTurn(v []int16, step, _ int) {
	times := func(x, factor int16) int16 { return int16(int32(x<<2) * int32(factor<<6) >> 16) }
	at := func(i int) int16 { return v[i*step] }
	sum, difference, other := at(0)+at(4), at(0)-at(4), at(2)+at(6)
	skew := times(at(2)-at(6), 362) - other
	even := [4]int16{sum + other, difference + skew, difference - skew, sum - other}

	z13, z10, z11, z12 := at(5)+at(3), at(5)-at(3), at(1)+at(7), at(1)-at(7)
	z5 := times(z10+z12, 473)
	o0 := z11 + z13
	o1 := times(z10, 256-669) - z10 + z5 - o0
	o2 := times(z11-z13, 362) - o1
	o3 := -(times(z12, 277) - z5 + o2)
	for i, odd := range [4]int16{o0, o1, o2, o3} {
		v[i*step], v[(7-i)*step] = even[i]+odd, even[i]-odd
	}
}

// accurateTurn is fastTurn for the accurate transform.
func accurateTurn(v []int16, step, pass int) {
	shift := []int{11, 18}[pass]
	at := func(i int) int16 { return v[i*step] }
	products := func(x, y int16, f, g int32) int32 { return int32(x)*f + int32(y)*g }
	t2, t3 := products(at(2), at(6), 4433, 4433-15137), products(at(2), at(6), 4433+6270, 4433)
	t0, t1 := int32(at(0)+at(4))<<13, int32(at(0)-at(4))<<13
	even := [4]int32{t0 + t3, t1 + t2, t1 - t2, t0 - t3}

	z3, z4 := at(7)+at(3), at(5)+at(1)
	p3, p4 := products(z3, z4, 9633-16069, 9633), products(z3, z4, 9633, 9633-3196)
	odd := [4]int32{
		products(at(7), at(1), -7373, 12299-7373) + p4,
		products(at(5), at(3), -20995, 25172-20995) + p3,
		products(at(5), at(3), 16819-20995, -20995) + p4,
		products(at(7), at(1), 2446-7373, -7373) + p3,
	}
	rounded := func(x int32) int16 { return int16(min(max((x+1<<(shift-1))>>shift, -1<<15), 1<<15-1)) }
	for i := range even {
		v[i*step], v[(7-i)*step] = rounded(even[i]+odd[i]), rounded(even[i]-odd[i])
	}
}

// UpsampleBoth sets dst to two samples for each sample of near. The first is closer to the previous sample, the second to the next, and
// both are closer to this row than to far, with weights three to one. The rows have an extra sample at both ends: len(dst) =
// 2*(len(near)-2).
func UpsampleBoth(dst, near, far []uint8) {
	n := checkUpsampling(dst, near)
	checkLengths(len(near), len(far))
	if k := active.pictures; k != nil && n >= sampleTurn {
		whole := n &^ (sampleTurn - 1)
		k.upsampleBoth(&dst[0], &near[1], &far[1], whole)
		if whole < n {
			k.upsampleBoth(&dst[2*(n-sampleTurn)], &near[1+n-sampleTurn], &far[1+n-sampleTurn], sampleTurn)
		}
		return
	}
	sum := func(i int) uint32 { return 3*uint32(near[i]) + uint32(far[i]) }
	for i := range n {
		here := 3 * sum(i+1)
		dst[2*i], dst[2*i+1] = uint8((here+sum(i)+8)>>4), uint8((here+sum(i+2)+7)>>4)
	}
}

// UpsampleAcross is UpsampleBoth within a single row.
func UpsampleAcross(dst, row []uint8) {
	n := checkUpsampling(dst, row)
	if k := active.pictures; k != nil && n >= sampleTurn {
		whole := n &^ (sampleTurn - 1)
		k.upsampleAcross(&dst[0], &row[1], whole)
		if whole < n {
			k.upsampleAcross(&dst[2*(n-sampleTurn)], &row[1+n-sampleTurn], sampleTurn)
		}
		return
	}
	for i := range n {
		here := 3 * uint32(row[i+1])
		dst[2*i], dst[2*i+1] = uint8((here+uint32(row[i])+1)>>2), uint8((here+uint32(row[i+2])+2)>>2)
	}
}

func checkUpsampling(dst, row []uint8) (n int) {
	n = max(len(row)-2, 0)
	checkLengths(len(dst), 2*n)
	return n
}

// RepeatAcross sets dst to the samples of a row, each twice.
func RepeatAcross(dst, row []uint8) {
	n := len(row)
	checkLengths(len(dst), 2*n)
	if k := active.pictures; k != nil && n >= sampleTurn {
		whole := n &^ (sampleTurn - 1)
		k.repeatAcross(&dst[0], &row[0], whole)
		if whole < n {
			k.repeatAcross(&dst[2*(n-sampleTurn)], &row[n-sampleTurn], sampleTurn)
		}
		return
	}
	for i, v := range row {
		dst[2*i], dst[2*i+1] = v, v
	}
}

// YCbCrToRGB sets dst to pixels of three channels, by JFIF's conversion with 16 fractional bits: len(dst) = 3*len(y).
func YCbCrToRGB(dst, y, cb, cr []uint8) {
	n := len(y)
	checkLengths(n, len(cb), len(cr))
	checkLengths(len(dst), 3*n)
	if k := active.pictures; k != nil && n >= pixelTurn {
		whole := n &^ (pixelTurn - 1)
		k.colours(&dst[0], &y[0], &cb[0], &cr[0], whole)
		if at := n - pixelTurn; whole < n {
			k.colours(&dst[3*at], &y[at], &cb[at], &cr[at], pixelTurn)
		}
		return
	}
	level := func(v int32) uint8 { return uint8(min(max(v, 0), 255)) }
	const half = 1 << 15
	for i, luma := range y {
		l, b, r := int32(luma), int32(cb[i])-128, int32(cr[i])-128
		dst[3*i] = level(l + (91881*r+half)>>16)
		dst[3*i+1] = level(l + (-22554*b-46802*r+half)>>16)
		dst[3*i+2] = level(l + (116130*b+half)>>16)
	}
}
