package access

import (
	"bytes"
	"encoding/base64"

	"github.com/troupe-run/troupe/graph/status"
)

// NewSecret returns the text of a new secret's file: 32 random bytes in base64, and a newline.
func NewSecret() []byte {
	return append(base64.StdEncoding.AppendEncode(nil, randomBytes(secretSize)), '\n')
}

// LoadSecret reads a file that NewSecret made. Only its user may be able to read it.
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

// ParseSecret parses the text of a secret's file. It rejects secrets that people made up: they are too short or not base64.
func ParseSecret(text []byte) ([]byte, error) {
	text = bytes.TrimSpace(text)
	secret := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Strict().Decode(secret, text)
	if err != nil || n != secretSize {
		return nil, status.InvalidArgumentf("a secret is %d random bytes in base64: make one with 'troupe secret new FILE'", secretSize)
	}
	return secret[:n], nil
}
