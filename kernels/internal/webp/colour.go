package webp

import "image"

// colours writes the pixels of planes whose chroma has half as many rows and columns. Each pixel's chroma is interpolated from the nearest
// four samples, with weights 9:3:3:1.
func colours(m *image.YCbCr, channels int, pixels []uint8) {
	width, height := m.Rect.Dx(), m.Rect.Dy()
	half := (width + 1) / 2
	for y := range height {
		row := y / 2
		near := min(max(row-1+y%2*2, 0), (height+1)/2-1)
		u, nearU := m.Cb[row*m.CStride:][:half], m.Cb[near*m.CStride:][:half]
		v, nearV := m.Cr[row*m.CStride:][:half], m.Cr[near*m.CStride:][:half]
		for x, luma := range m.Y[y*m.YStride:][:width] {
			column := x / 2
			next := column - 1 + x%2*2
			var cb, cr int32
			if next < 0 || next >= half {
				cb, cr = edge(u[column], nearU[column]), edge(v[column], nearV[column])
			} else {
				cb = between(u[column], u[next], nearU[column], nearU[next])
				cr = between(v[column], v[next], nearV[column], nearV[next])
			}
			toRGB(pixels[(y*width+x)*channels:], int32(luma), cb, cr)
		}
	}
}

// edge interpolates at the left and right borders.
func edge(here, near uint8) int32 { return (3*int32(here) + int32(near) + 2) >> 2 }

// between interpolates as libwebp does, halving twice.
func between(here, beside, above, across uint8) int32 {
	a, b, c, d := int32(here), int32(beside), int32(above), int32(across)
	diagonal := (a + b + c + d + 8 + 2*(b+c)) >> 3
	return (diagonal + a) >> 1
}

// toRGB converts a colour by ITU-R 601 in video range, in fixed point with 14 fractional bits, 8 of which are dropped after each product.
func toRGB(dst []uint8, y, u, v int32) {
	part := func(v, factor int32) int32 { return v * factor >> 8 }
	luma := part(y, 19077)
	dst[0] = clamp(luma + part(v, 26149) - 14234)
	dst[1] = clamp(luma - part(u, 6419) - part(v, 13320) + 8708)
	dst[2] = clamp(luma + part(u, 33050) - 17685)
}

// clamp drops the remaining fractional bits and clamps the level.
func clamp(v int32) uint8 { return uint8(min(max(v>>6, 0), 255)) }
