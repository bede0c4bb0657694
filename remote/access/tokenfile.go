package access

import (
	"bytes"
	"cmp"
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/troupe-run/troupe/graph/status"
)

// bearer is the scheme of the Authorization header of a token.
const bearer = "Bearer "

// Authorization returns the header value for a token: "Bearer TOKEN". For a malformed token, the error is INVALID_ARGUMENT and does not
// repeat the token.
func Authorization(token string) (string, error) {
	if token == "" {
		return "", status.InvalidArgumentf("the token is empty")
	}
	if most := maxAuthorization - len(bearer); len(token) > most {
		return "", status.InvalidArgumentf("the token has %d bytes, the limit is %d", len(token), most)
	}
	// RFC 6750, 2.1
	for i, c := range []byte(token) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-._~+/=", c) >= 0:
		default:
			return "", status.InvalidArgumentf("the token has the character %q at byte %d: letters, digits and -._~+/= are allowed", rune(c), i)
		}
	}
	return bearer + token, nil
}

// TokenFile is the file with a client's own token. It is reloaded when it changes: an expiring token is replaced without a new connection.
// If the file cannot be used, the previous token stays in use. Its methods are safe for concurrent use.
type TokenFile struct {
	files reloader
	now   atomic.Pointer[string]
}

// LoadTokenFile reads a file that contains only a token, and watches it until Close. Only its user may be able to read it.
func LoadTokenFile(path string, log *slog.Logger) (*TokenFile, error) {
	f := &TokenFile{}
	f.files = reloader{what: "token", paths: []string{path}, log: cmp.Or(log, slog.Default()), load: func() error {
		text, err := readSecret("token", path)
		if err != nil {
			return err
		}
		header, err := Authorization(string(bytes.TrimSpace(text)))
		if err != nil {
			return status.Errorf(status.FailedPrecondition, "%s: %v", path, err)
		}
		f.now.Store(&header)
		return nil
	}}
	if err := f.files.start(); err != nil {
		return nil, err
	}
	return f, nil
}

// Authorization returns the header value for the current token.
func (f *TokenFile) Authorization() string { return *f.now.Load() }

// Reload reads the file now.
func (f *TokenFile) Reload() error { return f.files.reload() }

// Close stops watching the file.
func (f *TokenFile) Close() { f.files.close() }
