//go:build race

package freed

// Overwrite overwrites b with bytes that are no text and begin no valid message. The owner of b must not read it any more.
func Overwrite(b []byte) {
	// Copying is one access to the detector, a loop would be one for each byte.
	for n := copy(b, spoiled); n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}

const spoiled = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"
