package jpeg

import "image"

// The conversions between RGB and YCbCr of JFIF, in fixed point with 16 bits behind the point, rounded as libjpeg rounds.
const (
	half = 1 << 15

	lumaRed, lumaGreen, lumaBlue = 19595, 38470, 7471 // 0.29900, 0.58700, 0.11400
	cbRed, cbGreen               = -11059, -21709     // -0.16874, -0.33126; 0.5 for blue
	crGreen, crBlue              = -27439, -5329      // -0.41869, -0.08131; 0.5 for red
	redCr, blueCb                = 91881, 116130      // 1.40200, 1.77200
	greenCb, greenCr             = -22554, -46802     // -0.34414, -0.71414
	centre                       = 128<<16 + half - 1 // of Cb and Cr
)

func luma(r, g, b int32) uint8 { return uint8((lumaRed*r + lumaGreen*g + lumaBlue*b + half) >> 16) }

// chroma is a colour's Cb and Cr.
func chroma(r, g, b int32) (cb, cr uint8) {
	return uint8((cbRed*r + cbGreen*g + half*b + centre) >> 16), uint8((half*r + crGreen*g + crBlue*b + centre) >> 16)
}

// clamp bounds a level.
func clamp(v int32) uint8 { return uint8(min(max(v, 0), 255)) }

// toRGB writes the colour of y, cb and cr.
func toRGB(dst []uint8, y, cb, cr uint8) {
	luma, b, r := int32(y), int32(cb)-128, int32(cr)-128
	_ = dst[2]
	dst[0] = clamp(luma + (redCr*r+half)>>16)
	dst[1] = clamp(luma + (greenCb*b+greenCr*r+half)>>16)
	dst[2] = clamp(luma + (blueCb*b+half)>>16)
}

// colours writes the pixels of planes, of which Cb and Cr may be smaller.
func colours(m *image.YCbCr, smooth bool, pixels []uint8) {
	width, height := m.Rect.Dx(), m.Rect.Dy()
	across, down := factors(m.SubsampleRatio)
	chromaWidth, chromaHeight := (width+across-1)/across, (height+down-1)/down
	cb := plane{m.Cb, m.CStride, chromaWidth, chromaHeight}
	cr := plane{m.Cr, m.CStride, chromaWidth, chromaHeight}
	upsample := sampler(across, down, smooth && (across == 1 || chromaWidth > 2))
	// A row of colours is a pair longer than that of pixels when their number is odd.
	blue, red := make([]uint8, chromaWidth*across), make([]uint8, chromaWidth*across)
	for y := range height {
		upsample(blue, cb, y)
		upsample(red, cr, y)
		row, dst := m.Y[y*m.YStride:][:width], pixels[y*width*3:][:width*3]
		for x, v := range row {
			toRGB(dst[3*x:], v, blue[x], red[x])
		}
	}
}

// factors are how many pixels share a colour, across and down.
func factors(r image.YCbCrSubsampleRatio) (across, down int) {
	switch r {
	case image.YCbCrSubsampleRatio422:
		return 2, 1
	case image.YCbCrSubsampleRatio420:
		return 2, 2
	case image.YCbCrSubsampleRatio440:
		return 1, 2
	case image.YCbCrSubsampleRatio411:
		return 4, 1
	case image.YCbCrSubsampleRatio410:
		return 4, 2
	default:
		return 1, 1
	}
}

// plane holds the samples of one component.
type plane struct {
	samples               []uint8
	stride, width, height int
}

func (p plane) row(y int) []uint8 {
	return p.samples[min(max(y, 0), p.height-1)*p.stride:][:p.width]
}

// near is the row of samples whose centre is next closest to that of row y of pixels, which is in one of twice their height.
func (p plane) near(y int) []uint8 { return p.row(y/2 - 1 + y%2*2) }

// sampler gives a function that fills a row of pixels with samples, interpolated if smooth where libjpeg does so: between the
// two nearest samples, or rows of these, by three to one. The roundings alternate, so that they add no bias.
func sampler(across, down int, smooth bool) func(dst []uint8, p plane, y int) {
	switch {
	case smooth && across == 2 && down == 1:
		return func(dst []uint8, p plane, y int) {
			row := p.row(y)
			for x, v := range row {
				here := 3 * int32(v)
				dst[2*x] = uint8((here + int32(row[max(x-1, 0)]) + 1) >> 2)
				dst[2*x+1] = uint8((here + int32(row[min(x+1, len(row)-1)]) + 2) >> 2)
			}
		}
	case smooth && across == 2 && down == 2:
		return func(dst []uint8, p plane, y int) {
			row, near := p.row(y/2), p.near(y)
			sum := func(x int) int32 { return 3*int32(row[x]) + int32(near[x]) }
			before, here := sum(0), sum(0)
			for x := range row {
				after := here
				if x+1 < len(row) {
					after = sum(x + 1)
				}
				dst[2*x] = uint8((3*here + before + 8) >> 4)
				dst[2*x+1] = uint8((3*here + after + 7) >> 4)
				before, here = here, after
			}
		}
	case smooth && across == 1 && down == 2:
		return func(dst []uint8, p plane, y int) {
			near, bias := p.near(y), int32(1+y%2)
			for x, v := range p.row(y / 2) {
				dst[x] = uint8((3*int32(v) + int32(near[x]) + bias) >> 2)
			}
		}
	default:
		return func(dst []uint8, p plane, y int) {
			for x, v := range p.row(y / down) {
				for i := range across {
					dst[across*x+i] = v
				}
			}
		}
	}
}
