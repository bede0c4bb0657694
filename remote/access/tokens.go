package access

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/graph/status"
)

const (
	// maxAuthorization bounds the Authorization header.
	maxAuthorization = 8 << 10
	// tokenPrefix begins the tokens of token files, so that people and scanners for leaked secrets recognize them.
	tokenPrefix = "troupe_"
	hashPrefix  = "sha256:"
	secretSize  = 32
	// cachedTokens bounds the signed tokens whose signatures need not be checked again.
	cachedTokens = 1024
)

// TokenConfig says which tokens are accepted.
type TokenConfig struct {
	// File has a line for each token: name, sha256:HASH, and optionally when it expires (RFC 3339). Blank lines and lines that begin with #
	// are ignored. Empty means no file.
	File string
	// Keys is a file of PEM public keys or certificates that verify JSON web tokens, or of a secret as NewSecret makes it. Empty means no
	// file.
	Keys string
	// Audience and Issuer, if not empty, must match those of a JSON web token.
	Audience, Issuer string
	// Reloaded, if set, is called after every attempt to reload the files.
	Reloaded func(what string, err error)
	Log      *slog.Logger // nil: slog.Default()
}

// Tokens identify the owners of tokens. The files are reloaded when they change; if they cannot be used, the previous state stays in use.
// The methods are safe for concurrent use.
type Tokens struct {
	config TokenConfig
	files  reloader
	now    atomic.Pointer[tokenTable]
}

// tokenTable is what the files said at one time.
type tokenTable struct {
	byHash map[[sha256.Size]byte]tokenEntry
	keys   *tokenKeys // nil for none

	mu    sync.Mutex
	known map[[sha256.Size]byte]signedToken // tokens whose signature was verified
}

type tokenEntry struct {
	hash     [sha256.Size]byte
	identity Identity
	expires  time.Time // zero if it never expires
	line     int
}

// signedToken is a verified JSON web token.
type signedToken struct {
	identity Identity
	expires  time.Time
}

// LoadTokens reads the files and watches them until Close.
func LoadTokens(c TokenConfig) (*Tokens, error) {
	if c.File == "" && c.Keys == "" {
		return nil, status.InvalidArgumentf("tokens need a file of tokens or one of keys")
	}
	c.Log = cmp.Or(c.Log, slog.Default())
	t := &Tokens{config: c}
	var paths []string
	for _, p := range []string{c.File, c.Keys} {
		if p != "" {
			paths = append(paths, p)
		}
	}
	t.files = reloader{what: "tokens", paths: paths, load: t.load, log: c.Log, told: c.Reloaded}
	if err := t.files.start(); err != nil {
		return nil, err
	}
	return t, nil
}

// Reload reads the files now.
func (t *Tokens) Reload() error { return t.files.reload() }

// Close stops watching the files.
func (t *Tokens) Close() { t.files.close() }

func (t *Tokens) load() error {
	table := &tokenTable{known: map[[sha256.Size]byte]signedToken{}}
	if t.config.File != "" {
		text, err := readSecret("file of tokens", t.config.File)
		if err == nil {
			table.byHash, err = parseTokens(text)
		}
		if err != nil {
			return status.Errorf(status.FailedPrecondition, "%s: %v", t.config.File, err)
		}
	}
	if t.config.Keys != "" {
		var err error
		if table.keys, err = loadTokenKeys(t.config.Keys); err != nil {
			return status.Errorf(status.FailedPrecondition, "%s: %v", t.config.Keys, err)
		}
		table.keys.require(t.config.Audience, t.config.Issuer)
	}
	t.now.Store(table)
	return nil
}

// parseTokens parses a file of hashed tokens. The errors name the line.
func parseTokens(text []byte) (map[[sha256.Size]byte]tokenEntry, error) {
	all := map[[sha256.Size]byte]tokenEntry{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, maxFile+1)
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || fields[0][0] == '#' {
			continue
		}
		e, err := parseToken(fields)
		if err != nil {
			return nil, status.InvalidArgumentf("line %d: %v", n, err)
		}
		if other, twice := all[e.hash]; twice {
			return nil, status.InvalidArgumentf("line %d: the token of line %d again", n, other.line)
		}
		e.line = n
		all[e.hash] = e
	}
	return all, lines.Err()
}

func parseToken(fields []string) (e tokenEntry, err error) {
	if len(fields) < 2 || len(fields) > 3 {
		return e, status.InvalidArgumentf("a name, sha256:HASH and maybe a time are expected, not %d words", len(fields))
	}
	if !validClient(fields[0]) {
		return e, status.InvalidArgumentf("%.200q is not a client's name: letters, digits and ._-@ are allowed, at most %d", fields[0], maxClientName)
	}
	digits, ok := strings.CutPrefix(fields[1], hashPrefix)
	n := 0
	if ok && len(digits) == 2*sha256.Size {
		n, err = hex.Decode(e.hash[:], []byte(digits))
	}
	if n != sha256.Size || err != nil {
		return e, status.InvalidArgumentf("the hash is not sha256: and %d hexadecimal digits; 'troupe token new' prints such a line", 2*sha256.Size)
	}
	if len(fields) == 3 {
		if e.expires, err = time.Parse(time.RFC3339, fields[2]); err != nil {
			return e, status.InvalidArgumentf("%.100q is not a time such as 2031-01-31T00:00:00Z", fields[2])
		}
	}
	e.identity = Identity{Kind: Token, Name: ClientName(fields[0])}
	return e, nil
}

// NewToken creates a token for a client, and the line for the token file that accepts it until it expires; the zero time means never. The
// token cannot be recovered from the line.
func NewToken(client string, expires time.Time) (token, line string, err error) {
	if !validClient(client) {
		return "", "", status.InvalidArgumentf("%.200q is not a client's name: letters, digits and ._-@ are allowed, at most %d", client, maxClientName)
	}
	token = tokenPrefix + base64.RawURLEncoding.EncodeToString(randomBytes(secretSize))
	hash := sha256.Sum256([]byte(token))
	line = client + " " + hashPrefix + hex.EncodeToString(hash[:])
	if !expires.IsZero() {
		line += " " + stamp(expires)
	}
	return token, line, nil
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	rand.Read(b) // never fails: see crypto/rand
	return b
}

// Identify returns the identity behind an Authorization header ("Bearer TOKEN"). The error is UNAUTHENTICATED and does not repeat the
// token.
func (t *Tokens) Identify(authorization string) (Identity, error) {
	i, _, err := t.identify(authorization)
	return i, err
}

// identify also returns when the token expires; zero means never.
func (t *Tokens) identify(authorization string) (i Identity, expires time.Time, err error) {
	if len(authorization) > maxAuthorization {
		return i, expires, status.Errorf(status.Unauthenticated, "the token has %d bytes, the limit is %d", len(authorization), maxAuthorization)
	}
	scheme, token, ok := strings.Cut(authorization, " ")
	if !ok || !strings.EqualFold(scheme, "bearer") || token == "" {
		return i, expires, status.Errorf(status.Unauthenticated, `the authorization header is not of the form "Bearer TOKEN"`)
	}
	return t.now.Load().identify(token)
}

func (t *tokenTable) identify(token string) (i Identity, expires time.Time, err error) {
	hash := sha256.Sum256([]byte(token))
	// The time of the lookup leaks only the hash, from which nobody can derive the token. The found entry is compared in constant time all the
	// same.
	if e, ok := t.byHash[hash]; ok && subtle.ConstantTimeCompare(e.hash[:], hash[:]) == 1 {
		if !e.expires.IsZero() && !time.Now().Before(e.expires) {
			return i, expires, status.Errorf(status.Unauthenticated, "the token of %s (line %d) expired at %s", e.identity, e.line, stamp(e.expires))
		}
		return e.identity, e.expires, nil
	}
	if strings.HasPrefix(token, tokenPrefix) || strings.Count(token, ".") != 2 {
		return i, expires, status.Errorf(status.Unauthenticated, "the token is unknown or was withdrawn")
	}
	if t.keys == nil {
		return i, expires, status.Errorf(status.Unauthenticated, "the token is a JSON web token, and this server has no key for it: start it with --jwt-key")
	}
	return t.identifySigned(hash, token)
}

// identifySigned verifies a JSON web token, or returns the cached result.
func (t *tokenTable) identifySigned(hash [sha256.Size]byte, token string) (Identity, time.Time, error) {
	t.mu.Lock()
	s, ok := t.known[hash]
	t.mu.Unlock()
	if ok && time.Now().Before(s.expires) {
		return s.identity, s.expires, nil
	}
	s, err := t.keys.check(token)
	if err != nil {
		return Identity{}, time.Time{}, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.known) >= cachedTokens {
		clear(t.known) // tokens in use come back at the cost of one check each
	}
	t.known[hash] = s
	return s.identity, s.expires, nil
}
