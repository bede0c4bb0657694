package access

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"net/url"
	"time"

	"github.com/troupe-run/troupe/graph/status"
)

// clockSkew is how far apart the clocks of a cluster's machines may be for a new certificate to be valid at once.
const clockSkew = 5 * time.Minute

// Pair is a certificate and its key, each as PEM.
type Pair struct{ Cert, Key []byte }

// Authority issues the certificates of a cluster. It is safe for concurrent use.
type Authority struct {
	cert *x509.Certificate
	key  any
	pem  []byte
}

// NewAuthority creates an authority with its own key (ECDSA, P-256), whose certificate is valid until the given time. LoadAuthority accepts
// the pair; peers trust its certificate.
func NewAuthority(commonName string, until time.Time) (*Authority, Pair, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: commonName},
		NotBefore:             time.Now().Add(-clockSkew),
		NotAfter:              until,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
	}
	p, err := issue(template, nil)
	if err != nil {
		return nil, Pair{}, err
	}
	a, err := LoadAuthority(p)
	return a, p, err
}

// LoadAuthority returns the authority with the given certificate and key.
func LoadAuthority(p Pair) (*Authority, error) {
	pair, err := parsePair(p)
	if err != nil {
		return nil, err
	}
	if !pair.Leaf.IsCA {
		return nil, status.InvalidArgumentf("%s is not an authority's: it cannot issue certificates", describe(pair.Leaf))
	}
	return &Authority{cert: pair.Leaf, key: pair.PrivateKey, pem: p.Cert}, nil
}

// Request describes a certificate to issue.
type Request struct {
	Name Name
	// Hosts are the host names and IP addresses at which a task is reached; a client needs none.
	Hosts []string
	// Until is when the certificate expires; it must not be later than its authority's expiry.
	Until time.Time
}

// Issue creates a key (ECDSA, P-256) and a certificate for it. A task's certificate works at both ends of a connection, a client's only at
// the dialling end.
func (a *Authority) Issue(r Request) (Pair, error) {
	name, err := ParseName(r.Name.String())
	if err != nil {
		return Pair{}, err
	}
	if r.Until.After(a.cert.NotAfter) {
		return Pair{}, status.InvalidArgumentf("a certificate until %s outlasts its authority, which expires at %s", stamp(r.Until), stamp(a.cert.NotAfter))
	}
	uri, err := url.Parse(name.String())
	if err != nil {
		return Pair{}, status.InvalidArgumentf("the name %s cannot stand in a certificate: %v", name, err)
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: commonNameOf(name)},
		NotBefore:   time.Now().Add(-clockSkew),
		NotAfter:    r.Until,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		URIs:        []*url.URL{uri},

		BasicConstraintsValid: true,
	}
	if name.Client() == "" {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	for _, h := range r.Hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	return issue(template, a)
}

// commonNameOf returns the name that tools show for a certificate; X.520 allows 64 characters.
func commonNameOf(name Name) string {
	text := name.String()[len(scheme+"://"):]
	return text[:min(len(text), 64)]
}

// issue creates a key and signs a template for it; with a nil by, the certificate is self-signed.
func issue(template *x509.Certificate, by *Authority) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, status.Internalf("a key cannot be made: %v", err)
	}
	parent, signer := template, any(key)
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return Pair{}, status.InvalidArgumentf("the certificate %q cannot be made: %v", template.Subject.CommonName, err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, status.Internalf("a key cannot be encoded: %v", err)
	}
	return Pair{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
	}, nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
