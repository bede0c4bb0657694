package access

import (
	"bytes"
	"encoding/base64"

	"github.com/troupe-run/troupe/graph/status"
)

// NewSecret is the text of a file of a new secret: 32 random bytes in base64, and a line's end.
func NewSecret() []byte {
	return append(base64.StdEncoding.AppendEncode(nil, randomBytes(secretSize)), '\n')
}

// LoadSecret reads a file that NewSecret made. Nobody but its user may be able to read it.
func LoadSecret(path string) ([]byte, error) {
	text, err := readSecret("secret", path)
	if err != nil {
		return nil, err
	}
	secret, err := ParseSecret(text)
	if err != nil {
		return nil, status.Errorf(status.FailedPrecondition, "%s: %v", path, err)
	}
	return secret, nil
}

// ParseSecret reads the text of a secret's file. A secret that people thought up is too short or not base64, and
// refused.
func ParseSecret(text []byte) ([]byte, error) {
	text = bytes.TrimSpace(text)
	secret := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Strict().Decode(secret, text)
	if err != nil || n != secretSize {
		return nil, status.InvalidArgumentf("a secret is %d random bytes in base64: make one with 'troupe secret new FILE'", secretSize)
	}
	return secret[:n], nil
}
