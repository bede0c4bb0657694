package access

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/troupe-run/troupe/graph/status"
)

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func loadTokens(t *testing.T, c TokenConfig) *Tokens {
	t.Helper()
	c.Log = quiet
	k, err := LoadTokens(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

func TestTokenFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		alice, aliceLine, err := NewToken("alice", time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		bob, bobLine, err := NewToken("bob", time.Now().Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		path := file(t, "# those who train\n\n"+aliceLine+"\n"+bobLine+"\n")
		k, err := LoadTokens(TokenConfig{File: path, Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		want := func(header, who, refusal string) {
			t.Helper()
			i, err := k.Identify(header)
			if refusal == "" && (err != nil || i.String() != who || i.Kind != Token) || !contains(err, refusal) {
				t.Errorf("%.20q is %s, %v; want %s, %q", header, i, err, who, refusal)
			}
			if err != nil && (status.CodeOf(err) != status.Unauthenticated || strings.Contains(err.Error(), strings.TrimPrefix(alice, tokenPrefix))) {
				t.Errorf("the refusal is %v: %v", status.CodeOf(err), err)
			}
		}
		want("Bearer "+alice, "client:alice", "")
		want("bearer "+bob, "client:bob", "")
		want(alice, "", "not of the form")
		want("Basic "+alice, "", "not of the form")
		want("Bearer ", "", "not of the form")
		want("Bearer "+alice+"x", "", "unknown or was withdrawn")
		want("Bearer "+alice[:len(alice)-1], "", "unknown or was withdrawn")
		want("Bearer a.b.c", "", "no key for it")
		want("Bearer "+strings.Repeat("a", maxAuthorization), "", "the limit is 8192")

		time.Sleep(time.Hour)
		want("Bearer "+bob, "", "the token of client:bob (line 4) expired at 2000-01-01T01:00:00Z")
		if err := os.WriteFile(path, []byte(bobLine), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := k.Reload(); err != nil {
			t.Fatal(err)
		}
		want("Bearer "+alice, "", "unknown or was withdrawn")
	})
}

func TestBadTokenFiles(t *testing.T) {
	_, line, err := NewToken("alice", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for want, text := range map[string]string{
		"line 1: a name, sha256:HASH":           "alice",
		"line 2: \"a*\" is not a client's":      "\na* sha256:00",
		"the hash is not sha256:":               "alice sha256:00",
		"line 3: the token of line 1":           line + "\n#\n" + line,
		`"tomorrow" is not a time`:              line + " tomorrow",
		"not 4 words":                           line + " 2031-01-31T00:00:00Z again",
		"line 1: the hash is not sha256: and 6": "alice " + strings.Repeat("0", 71),
	} {
		if _, err := LoadTokens(TokenConfig{File: file(t, text), Log: quiet}); !contains(err, want) {
			t.Errorf("LoadTokens: %v, want %q", err, want)
		}
	}
	open := file(t, line)
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadTokens(TokenConfig{File: open, Log: quiet}); !contains(err, "chmod 600") {
		t.Errorf("a file that others read: %v", err)
	}
}

// signers returns a key of each type, by algorithm.
func signers(t *testing.T) map[string]crypto.Signer {
	t.Helper()
	e, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	_, d, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]crypto.Signer{"ES256": e, "RS256": r, "EdDSA": d}
}

func publicPEM(t *testing.T, keys ...crypto.PublicKey) string {
	t.Helper()
	var text strings.Builder
	for _, k := range keys {
		der, err := x509.MarshalPKIXPublicKey(k)
		if err != nil {
			t.Fatal(err)
		}
		pem.Encode(&text, &pem.Block{Type: "PUBLIC KEY", Bytes: der})
	}
	return text.String()
}

func sign(t *testing.T, algorithm string, key any, change jwt.MapClaims) string {
	t.Helper()
	c := jwt.MapClaims{"sub": "alice", "exp": time.Now().Add(time.Hour).Unix(), "aud": "troupe", "iss": "https://issuer"}
	maps.Copy(c, change)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	s, err := jwt.NewWithClaims(jwt.GetSigningMethod(algorithm), c).SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return "Bearer " + s
}

func TestSignedTokens(t *testing.T) {
	keys := signers(t)
	text := publicPEM(t, keys["ES256"].Public(), keys["RS256"].Public(), keys["EdDSA"].Public())
	k := loadTokens(t, TokenConfig{Keys: file(t, text), Audience: "troupe", Issuer: "https://issuer"})
	for algorithm, key := range keys {
		header := sign(t, algorithm, key, jwt.MapClaims{"groups": []string{"b", "a", "b"}})
		for range 2 { // verified, then cached
			i, err := k.Identify(header)
			if err != nil || i.String() != "client:alice" || strings.Join(i.Claims, " ") != "a b" {
				t.Errorf("%s: %s, %v, %v", algorithm, i, i.Claims, err)
			}
		}
	}
	e := keys["ES256"]
	rsaKey := keys["RS256"].(*rsa.PrivateKey)
	for want, header := range map[string]string{
		"expired":                      sign(t, "ES256", e, jwt.MapClaims{"exp": time.Now().Add(-time.Hour).Unix()}),
		"exp claim is required":        sign(t, "ES256", e, jwt.MapClaims{"exp": nil}),
		"not valid yet":                sign(t, "ES256", e, jwt.MapClaims{"nbf": time.Now().Add(time.Hour).Unix()}),
		"invalid audience":             sign(t, "ES256", e, jwt.MapClaims{"aud": "other"}),
		"invalid issuer":               sign(t, "ES256", e, jwt.MapClaims{"iss": "other"}),
		`(sub) "" is not`:              sign(t, "ES256", e, jwt.MapClaims{"sub": nil}),
		`(sub) "a/b" is not`:           sign(t, "ES256", e, jwt.MapClaims{"sub": "a/b"}),
		`group "x y" is not`:           sign(t, "ES256", e, jwt.MapClaims{"groups": []string{"x y"}}),
		"65 groups":                    sign(t, "ES256", e, jwt.MapClaims{"groups": make([]string, 65)}),
		"signing method none":          sign(t, "none", jwt.UnsafeAllowNoneSignatureType, nil),
		"signing method HS256":         sign(t, "HS256", []byte(text), nil), // the public key as the secret
		"signing method PS256":         sign(t, "PS256", rsaKey, nil),
		"verification error":           sign(t, "ES256", signers(t)["ES256"], nil),
		"could not base64 decode":      "Bearer !.!.!",
		"token is malformed":           "Bearer ..",
		"the token is unknown or was ": "Bearer a.b.c.d",
	} {
		if i, err := k.Identify(header); !contains(err, want) || status.CodeOf(err) != status.Unauthenticated {
			t.Errorf("%s, %v; want %q", i, err, want)
		}
	}
}

// TestSecretSignsTokens checks that a secret is a key for HS256 only, and must not be readable by others.
func TestSecretSignsTokens(t *testing.T) {
	text := NewSecret()
	secret, err := ParseSecret(text)
	if err != nil {
		t.Fatal(err)
	}
	path := file(t, string(text))
	k := loadTokens(t, TokenConfig{Keys: path})
	if i, err := k.Identify(sign(t, "HS256", secret, nil)); err != nil || i.Name != ClientName("alice") {
		t.Errorf("%s, %v", i, err)
	}
	if _, err := k.Identify(sign(t, "HS512", secret, nil)); !contains(err, "signing method HS512") {
		t.Errorf("HS512: %v", err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := k.Reload(); !contains(err, "chmod 600") {
		t.Errorf("a secret that others read: %v", err)
	}
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err == nil {
		if _, err := LoadTokens(TokenConfig{Keys: file(t, publicPEM(t, short.Public())), Log: quiet}); !contains(err, "1024 bits is too short") {
			t.Errorf("a short key: %v", err)
		}
	}
}

func TestManySignedTokensAreForgotten(t *testing.T) {
	secret, err := ParseSecret(NewSecret())
	if err != nil {
		t.Fatal(err)
	}
	keys := &tokenKeys{byAlgorithm: map[string][]jwt.VerificationKey{"HS256": {secret}}}
	keys.require("", "")
	table := &tokenTable{keys: keys, known: map[[32]byte]signedToken{}}
	for i := range cachedTokens + 10 {
		header := sign(t, "HS256", secret, jwt.MapClaims{"jti": strconv.Itoa(i)})
		if _, _, err := table.identify(strings.TrimPrefix(header, "Bearer ")); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(table.known); n > cachedTokens {
		t.Errorf("%d tokens are remembered, the limit is %d", n, cachedTokens)
	}
}

func TestWhoPeersAre(t *testing.T) {
	token, line, err := NewToken("alice", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	tokens := loadTokens(t, TokenConfig{File: file(t, line)})
	ca, _ := authority(t)
	worker, err := parsePair(ca.mustIssue(t, TaskName("worker", 1), time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	encrypted := &tls.ConnectionState{}
	certified := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{worker.Leaf}}
	near, far := &net.TCPAddr{IP: net.IPv6loopback}, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}
	for _, c := range []struct {
		peer    Peer
		tokens  *Tokens
		want    string
		kind    Kind
		refusal string
	}{
		{Peer{}, nil, "loopback", Loopback, ""},
		{Peer{Address: near}, nil, "loopback", Loopback, ""},
		{Peer{Address: &net.TCPAddr{IP: net.ParseIP("::ffff:127.0.0.1")}}, nil, "loopback", Loopback, ""},
		{Peer{Address: far}, nil, "network", Network, ""},
		{Peer{Address: far, TLS: encrypted}, nil, "network", Network, ""},
		{Peer{Address: far, TLS: certified}, nil, "task:worker/1", Certificate, ""},
		{Peer{Address: near, Authorization: "Bearer " + token}, tokens, "client:alice", Token, ""},
		{Peer{Address: far, TLS: encrypted, Authorization: "Bearer " + token}, tokens, "client:alice", Token, ""},
		{Peer{Address: far, TLS: certified, Authorization: "Bearer " + token}, tokens, "client:alice", Token, ""},
		{Peer{Address: far, TLS: certified, Authorization: "Bearer x"}, tokens, "", 0, "unknown or was withdrawn"},
		{Peer{Address: far, Authorization: "Bearer " + token}, tokens, "", 0, "unencrypted connection from 192.0.2.1"},
		{Peer{Address: near, Authorization: "Bearer " + token}, nil, "", 0, "--tokens"},
	} {
		got, err := Identify(c.peer, c.tokens)
		if c.refusal != "" {
			if !contains(err, c.refusal) {
				t.Errorf("%+v: %v, want %q", c.peer, err, c.refusal)
			}
		} else if err != nil || got.String() != c.want || got.Kind != c.kind {
			t.Errorf("%+v is %s (%v), %v; want %s", c.peer, got, got.Kind, err, c.want)
		}
	}
}

func FuzzTokens(f *testing.F) {
	secret := NewSecret()
	key, err := ParseSecret(secret)
	if err != nil {
		f.Fatal(err)
	}
	token, line, err := NewToken("alice", time.Time{})
	if err != nil {
		f.Fatal(err)
	}
	table, err := parseTokens([]byte(line))
	if err != nil {
		f.Fatal(err)
	}
	keys := &tokenKeys{byAlgorithm: map[string][]jwt.VerificationKey{"HS256": {key}}}
	keys.require("", "")
	k := &Tokens{}
	k.now.Store(&tokenTable{byHash: table, keys: keys, known: map[[32]byte]signedToken{}})
	for _, s := range []string{"", "Bearer", "Bearer " + token[:20], "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.", "Bearer a.b.c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		if i, err := k.Identify(header); err == nil {
			t.Errorf("%q lets %s in", header, i)
		}
	})
}

func FuzzTokenFile(f *testing.F) {
	_, line, err := NewToken("alice", time.Unix(2000000000, 0))
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(line))
	f.Add([]byte("# x\n\n" + line + "\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := parseTokens(text)
		for _, e := range all {
			if err != nil || !validClient(e.identity.Name.Client()) || e.identity.Kind != Token {
				t.Errorf("%q: %v, %v", text, e, err)
			}
		}
	})
}

func FuzzSecret(f *testing.F) {
	f.Add(NewSecret())
	f.Add([]byte("hunter2"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if s, err := ParseSecret(text); err == nil && len(s) != secretSize {
			t.Errorf("%q is a secret of %d bytes", text, len(s))
		}
	})
}

// TestOwnTokenFile checks that a client's token file must be its user's alone, and that a broken one leaves the previous token in use.
func TestOwnTokenFile(t *testing.T) {
	path := file(t, "troupe_one\n")
	f, err := LoadTokenFile(path, quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	for _, text := range []string{"", "two words", "troupe_\x00", strings.Repeat("x", maxAuthorization)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := f.Reload(); status.CodeOf(err) != status.FailedPrecondition || !strings.Contains(err.Error(), path) {
			t.Errorf("%.20q: %v", text, err)
		}
		if got := f.Authorization(); got != "Bearer troupe_one" {
			t.Errorf("after %.20q: %q", text, got)
		}
	}
	if err := os.WriteFile(path, []byte("troupe_two"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.Reload(); err != nil || f.Authorization() != "Bearer troupe_two" {
		t.Errorf("%q, %v", f.Authorization(), err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadTokenFile(path, quiet); status.CodeOf(err) != status.FailedPrecondition || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("%v", err)
	}
}

// FuzzAuthorization checks that a header contains no character that ends it, and is read back unchanged.
func FuzzAuthorization(f *testing.F) {
	f.Add("troupe_abc")
	f.Add("a\r\nb")
	f.Fuzz(func(t *testing.T, token string) {
		header, err := Authorization(token)
		if err != nil {
			return
		}
		if header != "Bearer "+token || len(header) > maxAuthorization || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			t.Errorf("%q", header)
		}
	})
}
