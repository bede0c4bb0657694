package shape

var spectralOps = []row{
	{"FFT IFFT", unchangedFrom(1)},
	{"FFT2D IFFT2D", unchangedFrom(2)},
	{"FFT3D IFFT3D", unchangedFrom(3)},
	{"RFFT", realFFT(1, true)},
	{"RFFT2D", realFFT(2, true)},
	{"RFFT3D", realFFT(3, true)},
	{"IRFFT", realFFT(1, false)},
	{"IRFFT2D", realFFT(2, false)},
	{"IRFFT3D", realFFT(3, false)},
}

// realFFT is for transforms of real signals over the last dimensions, of whose spectrum only half is stored.
func realFFT(rank int, forward bool) rule {
	return func(c *call) {
		out := c.atLeast(c.in(0), rank)
		c.size(c.vector(1).at(0), int64(rank))
		length, ok := c.ints(1)
		if ok && len(length) != rank {
			c.fail("fft_length must have %d elements, but has %d", rank, len(length))
			return
		}
		for i := range rank {
			d := int64(-1)
			if ok {
				if d = length[i]; forward && i == rank-1 && d != 0 {
					d = d/2 + 1
				}
				if d < -1 {
					c.fail("fft_length[%d] = %d must be non-negative", i, length[i])
				}
			}
			out = c.with(out, i-rank, d)
		}
		c.set(0, out)
	}
}
