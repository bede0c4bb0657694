// Package glyphs draws the digits 0 to 9 as on a seven-segment display, with varying size, position and brightness and with noise. It
// provides data for examples without a download.
package glyphs

import (
	"image"
	"image/color"
	"math/rand/v2"
)

// segments are the lit segments of each digit: top, upper left, upper right, middle, lower left, lower right, bottom.
var segments = [10]string{"1110111", "0010010", "1011101", "1011011", "0111010", "1101011", "1101111", "1010010", "1111111", "1111011"}

// Draw draws a digit into a square image of size by size pixels with brightness 0 to 255.
func Draw(random *rand.Rand, digit, size int) *image.Gray {
	img := image.NewGray(image.Rect(0, 0, size, size))
	for i := range img.Pix {
		img.Pix[i] = uint8(random.IntN(60))
	}
	between := func(from, to float64) int { return int(float64(size) * (from + random.Float64()*(to-from))) }
	w, h := between(0.35, 0.5), between(0.6, 0.75)
	x, y := between(0.1, 0.4), between(0.05, 0.2)
	thick := max(1, size/10)
	light := color.Gray{Y: uint8(140 + random.IntN(115))}
	bar := func(x, y, w, h int) {
		for dy := range h {
			for dx := range w {
				img.SetGray(x+dx, y+dy, light)
			}
		}
	}
	half := h / 2
	for i, part := range [7][4]int{{0, 0, w, thick}, {0, 0, thick, half}, {w - thick, 0, thick, half}, {0, half, w, thick},
		{0, half, thick, half}, {w - thick, half, thick, half}, {0, h - thick, w, thick}} {
		if segments[digit][i] == '1' {
			bar(x+part[0], y+part[1], part[2], part[3])
		}
	}
	return img
}

// Pixels returns an image's brightness values, scaled to 0 to 1.
func Pixels(img *image.Gray) []float32 {
	out := make([]float32, len(img.Pix))
	for i, p := range img.Pix {
		out[i] = float32(p) / 255
	}
	return out
}
