package jpeg

// JFIF's conversion from RGB to YCbCr, in fixed point with 16 fractional bits, rounded as in libjpeg.
const (
	half = 1 << 15

	lumaRed, lumaGreen, lumaBlue = 19595, 38470, 7471 // 0.29900, 0.58700, 0.11400
	cbRed, cbGreen               = -11059, -21709     // -0.16874, -0.33126; 0.5 for blue
	crGreen, crBlue              = -27439, -5329      // -0.41869, -0.08131; 0.5 for red
	centre                       = 128<<16 + half - 1 // of Cb and Cr
)

func luma(r, g, b int32) uint8 { return uint8((lumaRed*r + lumaGreen*g + lumaBlue*b + half) >> 16) }

// chroma returns a colour's Cb and Cr.
func chroma(r, g, b int32) (cb, cr uint8) {
	return uint8((cbRed*r + cbGreen*g + half*b + centre) >> 16), uint8((half*r + crGreen*g + crBlue*b + centre) >> 16)
}
