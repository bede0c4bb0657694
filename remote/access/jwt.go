package access

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/troupe-run/troupe/graph/status"
)

const (
	// tokenLeeway is how far apart the clocks of issuers and verifiers of signed tokens may be.
	tokenLeeway = 30 * time.Second
	minRSABits  = 2048
	maxClaims   = 64 // groups of a signed token
	maxKeys     = 64 // of a file
)

// tokenKeys verify JSON web tokens. Each key has one algorithm, determined by its type: a token's header cannot choose another.
type tokenKeys struct {
	byAlgorithm map[string][]jwt.VerificationKey
	parser      *jwt.Parser
}

// claims are the parts of a token that are read.
type claims struct {
	jwt.RegisteredClaims
	Groups []string `json:"groups"`
}

// loadTokenKeys reads PEM public keys and certificates, or a secret as NewSecret makes it.
func loadTokenKeys(path string) (*tokenKeys, error) {
	text, err := readFile("file of keys", path)
	if err != nil {
		return nil, err
	}
	if !bytes.Contains(text, []byte("-----BEGIN")) {
		secret, err := LoadSecret(path)
		if err != nil {
			return nil, err
		}
		return &tokenKeys{byAlgorithm: map[string][]jwt.VerificationKey{"HS256": {secret}}}, nil
	}
	k := &tokenKeys{byAlgorithm: map[string][]jwt.VerificationKey{}}
	count := 0
	for rest := text; ; count++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if count >= maxKeys {
			return nil, status.InvalidArgumentf("it has more than %d keys", maxKeys)
		}
		if err := k.add(block); err != nil {
			return nil, status.InvalidArgumentf("its key %d: %v", count+1, err)
		}
	}
	if count == 0 {
		return nil, status.InvalidArgumentf("it has no key that can be read (PEM)")
	}
	return k, nil
}

func (k *tokenKeys) add(block *pem.Block) error {
	var key crypto.PublicKey
	var err error
	switch block.Type {
	case "PUBLIC KEY":
		key, err = x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		key, err = x509.ParsePKCS1PublicKey(block.Bytes)
	case "CERTIFICATE":
		var cert *x509.Certificate
		if cert, err = x509.ParseCertificate(block.Bytes); err == nil {
			key = cert.PublicKey
		}
	default:
		err = status.InvalidArgumentf("a %s is not a public key", block.Type)
	}
	if err != nil {
		return err
	}
	algorithm, err := algorithmOf(key)
	if err != nil {
		return err
	}
	k.byAlgorithm[algorithm] = append(k.byAlgorithm[algorithm], key)
	return nil
}

// algorithmOf returns the only algorithm that a key is used with.
func algorithmOf(key crypto.PublicKey) (string, error) {
	switch key := key.(type) {
	case *rsa.PublicKey:
		if key.N.BitLen() < minRSABits {
			return "", status.InvalidArgumentf("an RSA key of %d bits is too short: at least %d are needed", key.N.BitLen(), minRSABits)
		}
		return "RS256", nil
	case ed25519.PublicKey:
		return "EdDSA", nil
	case *ecdsa.PublicKey:
		switch key.Curve {
		case elliptic.P256():
			return "ES256", nil
		case elliptic.P384():
			return "ES384", nil
		case elliptic.P521():
			return "ES512", nil
		}
	}
	return "", status.InvalidArgumentf("a %T is not supported: RSA, Ed25519 and ECDSA over P-256, P-384 and P-521 are", key)
}

// require sets the audience and the issuer that tokens must have, if not empty.
func (k *tokenKeys) require(audience, issuer string) {
	var algorithms []string
	for a := range k.byAlgorithm {
		algorithms = append(algorithms, a)
	}
	options := []jwt.ParserOption{jwt.WithValidMethods(algorithms), jwt.WithExpirationRequired(), jwt.WithLeeway(tokenLeeway), jwt.WithStrictDecoding()}
	if audience != "" {
		options = append(options, jwt.WithAudience(audience))
	}
	if issuer != "" {
		options = append(options, jwt.WithIssuer(issuer))
	}
	k.parser = jwt.NewParser(options...)
}

// check returns whose a token is, and its expiry.
func (k *tokenKeys) check(token string) (signedToken, error) {
	bad := func(format string, args ...any) (signedToken, error) {
		return signedToken{}, status.Errorf(status.Unauthenticated, "the JSON web token is refused: "+format, args...)
	}
	var c claims
	_, err := k.parser.ParseWithClaims(token, &c, func(t *jwt.Token) (any, error) {
		if _, critical := t.Header["crit"]; critical {
			return nil, status.Errorf(status.Unauthenticated, "its header demands extensions (crit), and none is supported")
		}
		return jwt.VerificationKeySet{Keys: k.byAlgorithm[t.Method.Alg()]}, nil
	})
	if err != nil {
		return bad("%v", err)
	}
	if !validClient(c.Subject) {
		return bad("its subject (sub) %.200q is not a client's name", c.Subject)
	}
	if len(c.Groups) > maxClaims {
		return bad("it has %d groups, the limit is %d", len(c.Groups), maxClaims)
	}
	for _, g := range c.Groups {
		if !validClient(g) {
			return bad("its group %.200q is not a name", g)
		}
	}
	slices.Sort(c.Groups)
	return signedToken{Identity{Kind: Token, Name: ClientName(c.Subject), Claims: slices.Compact(c.Groups)}, c.ExpiresAt.Add(tokenLeeway)}, nil
}
