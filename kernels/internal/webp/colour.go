package webp

import "image"

// colours writes the pixels of planes, of which those of colour have half as many rows and columns: each pixel's colour is
// interpolated between the four next to it, by nine to three to three to one.
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

// edge interpolates at the left and at the right border.
func edge(here, near uint8) int32 { return (3*int32(here) + int32(near) + 2) >> 2 }

// between interpolates as libwebp does, which halves twice.
func between(here, beside, above, across uint8) int32 {
	a, b, c, d := int32(here), int32(beside), int32(above), int32(across)
	diagonal := (a + b + c + d + 8 + 2*(b+c)) >> 3
	return (diagonal + a) >> 1
}

// toRGB writes the colour of ITU-R 601 in the range of video, in fixed point with 14 bits behind the point, of which 8 are
// dropped at the products.
func toRGB(dst []uint8, y, u, v int32) {
	part := func(v, factor int32) int32 { return v * factor >> 8 }
	luma := part(y, 19077)
	dst[0] = clamp(luma + part(v, 26149) - 14234)
	dst[1] = clamp(luma - part(u, 6419) - part(v, 13320) + 8708)
	dst[2] = clamp(luma + part(u, 33050) - 17685)
}

// clamp drops the bits behind the point that are left and bounds the level.
func clamp(v int32) uint8 { return uint8(min(max(v>>6, 0), 255)) }
