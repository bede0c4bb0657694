package strings

import (
	"encoding/base64"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// newEncodeBase64 returns the kernel that encodes strings in URL-safe base64.
func newEncodeBase64(c *kernels.Construction) (any, error) {
	pad, err := c.Attrs().Bool("pad")
	encoding := base64.RawURLEncoding
	if pad {
		encoding = base64.URLEncoding
	}
	return eachBounded(func(s string) int { return encoding.EncodedLen(len(s)) }, func(s string) string { return encoding.EncodeToString([]byte(s)) }), err
}

func decodeBase64(ctx *kernels.Context) error {
	in := ctx.Input(0)
	out, err := ctx.Allocate(0, tensor.String, in.Shape())
	if err != nil {
		return err
	}
	m := ctx.Meter()
	defer m.Done()
	for i, s := range in.Strings() {
		if err := m.Take(len(s)); err != nil {
			return err
		}
		if out.Strings()[i], err = fromBase64(s); err != nil {
			return err
		}
	}
	return nil
}

// digitsOfBase64 are the values of the characters, and notBase64 that of all others.
var digitsOfBase64 = func() (digits [256]byte) {
	for i := range digits {
		digits[i] = notBase64
	}
	for i, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") {
		digits[c] = byte(i)
	}
	return digits
}()

const notBase64 = 0xff

// fromBase64 decodes base64. Padding is allowed if it makes the length a multiple of four; surplus bits are ignored.
func fromBase64(s string) (string, error) {
	if n := len(s); n > 0 && n%4 == 0 && s[n-1] == '=' {
		s = s[:n-1]
		if s[n-2] == '=' {
			s = s[:n-2]
		}
	}
	decoded := make([]byte, 0, len(s)*3/4)
	bits, have := uint32(0), 0
	for i := range len(s) {
		if len(s)%4 == 1 && i == len(s)-1 {
			return "", status.InvalidArgumentf("Base64 string length cannot be 1 modulo 4.")
		}
		digit := digitsOfBase64[s[i]]
		if digit == notBase64 {
			return "", status.InvalidArgumentf("Invalid character found in base64.")
		}
		bits, have = bits<<6|uint32(digit), have+6
		if have >= 8 {
			have -= 8
			decoded = append(decoded, byte(bits>>have))
		}
	}
	return string(decoded), nil
}
