package trust

import (
	"bufio"
	"bytes"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"io"
	"os"
	"strings"
	"sync/atomic"

	"github.com/troupe-run/troupe/graph/status"
)

const (
	// minSecret is the minimum length of a secret in bytes, maxSecrets the maximum number of secrets in a file.
	minSecret  = 16
	maxSecrets = 8
	// maxFile bounds the file in bytes.
	maxFile = 64 << 10

	keySize = 32
)

// Secret is what the tasks of a cluster share: one secret, or several while one replaces another. The first is
// used; all are accepted. All methods may be called concurrently.
type Secret struct {
	path string
	keys atomic.Pointer[[]keys]
}

// keys are the keys derived from one secret.
type keys struct{ link, guest, gossip []byte }

// Load reads a file of secrets: one per line, in base64, of at least 16 bytes. Empty lines and those that begin with #
// are skipped. It returns INVALID_ARGUMENT, with the line, for an invalid file, and PERMISSION_DENIED for a file that other
// users may read or write.
func Load(path string) (*Secret, error) {
	s := &Secret{path: path}
	return s, s.Reload()
}

// Reload reads the file again. After an error the secrets are unchanged.
func (s *Secret) Reload() error {
	text, err := readPrivate(s.path)
	if err != nil {
		return err
	}
	all, err := parse(s.path, text)
	if err != nil {
		return err
	}
	s.keys.Store(&all)
	return nil
}

// Gossip returns the keys that encrypt the gossip. The first one is to be used for sending.
func (s *Secret) Gossip() (all [][]byte) {
	for _, k := range *s.keys.Load() {
		all = append(all, k.gossip)
	}
	return all
}

// readPrivate reads a file that no other user may access.
func readPrivate(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, status.InvalidArgumentf("The cluster's secret could not be read: %v. `troupe secret new FILE` makes one.", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, status.InvalidArgumentf("The cluster's secret could not be read: %v", err)
	}
	switch mode := info.Mode(); {
	case !mode.IsRegular():
		return nil, status.InvalidArgumentf("The cluster's secret is to be in a file: %s is none", path)
	case mode.Perm()&0o077 != 0:
		return nil, status.Errorf(status.PermissionDenied, "Other users may read or write the cluster's secret in %s (mode %04o). Change that: chmod 600 %s", path, mode.Perm(), path)
	case info.Size() > maxFile:
		return nil, status.InvalidArgumentf("The file of the cluster's secret, %s, has %d bytes; the limit is %d", path, info.Size(), maxFile)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil, status.InvalidArgumentf("The cluster's secret could not be read: %v", err)
	}
	return text, nil
}

// parse parses the content of a file of secrets. Errors contain none of it.
func parse(path string, text []byte) (all []keys, err error) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, maxFile+1)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		raw, err := base64.StdEncoding.DecodeString(line)
		if err != nil {
			return nil, status.InvalidArgumentf("%s:%d: a secret must be base64. `troupe secret new FILE` makes one.", path, n)
		}
		if len(raw) < minSecret {
			return nil, status.InvalidArgumentf("%s:%d: the secret has %d bytes; it needs %d at least. `troupe secret new FILE` makes one.", path, n, len(raw), minSecret)
		}
		if len(all) == maxSecrets {
			return nil, status.InvalidArgumentf("%s:%d: there are more than %d secrets", path, n, maxSecrets)
		}
		k, err := derive(raw)
		if err != nil {
			return nil, status.Internalf("deriving keys from a secret: %v", err)
		}
		all = append(all, k)
	}
	if err := lines.Err(); err != nil {
		return nil, status.InvalidArgumentf("%s: %v", path, err)
	}
	if len(all) == 0 {
		return nil, status.InvalidArgumentf("%s has no secret. `troupe secret new FILE` makes one.", path)
	}
	return all, nil
}

// derive derives the keys of a secret.
func derive(raw []byte) (k keys, err error) {
	for purpose, key := range map[string]*[]byte{"troupe link": &k.link, "troupe guest": &k.guest, "troupe gossip": &k.gossip} {
		if *key, err = hkdf.Key(sha256.New, raw, nil, purpose, keySize); err != nil {
			return keys{}, err
		}
	}
	return k, nil
}

// SignGuest returns the proof for a request to join a cluster that a client declares. The parts must contain everything that
// is requested, and the receiver.
func (s *Secret) SignGuest(parts ...[]byte) []byte { return mac((*s.keys.Load())[0].guest, parts...) }

// CheckGuest reports whether a proof is SignGuest's for the same parts, with any of the secrets.
func (s *Secret) CheckGuest(proof []byte, parts ...[]byte) bool {
	for _, k := range *s.keys.Load() {
		if hmac.Equal(proof, mac(k.guest, parts...)) {
			return true
		}
	}
	return false
}

// Party is one end of a handshake.
type Party struct {
	Task, Address string
	Boot          uint64
}

// Handshake is what both ends have sent before they prove that they know the secret.
type Handshake struct {
	Opener, Acceptor           Party
	OpenerNonce, AcceptorNonce []byte
}

// Side is the end that a proof is from.
type Side string

// The sides of a handshake.
const (
	Opener   Side = "opener"
	Acceptor Side = "acceptor"
)

// bond is the side in the MAC that is a handshake's bond.
const bond Side = "bond"

// Prove returns the proof of one side, with the first of the secrets.
func (s *Secret) Prove(side Side, h *Handshake) []byte { return h.mac((*s.keys.Load())[0].link, side) }

// Answer checks the acceptor's proof and returns the opener's, with the same secret, and the handshake's bond. ok is false if no secret matches.
func (s *Secret) Answer(h *Handshake, proof []byte) (answer []byte, b Bond, ok bool) {
	for _, k := range *s.keys.Load() {
		if hmac.Equal(proof, h.mac(k.link, Acceptor)) {
			return h.mac(k.link, Opener), h.mac(k.link, bond), true
		}
	}
	return nil, nil, false
}

// Check checks the opener's proof with all of the secrets, and returns the handshake's bond. ok is false if no secret matches.
func (s *Secret) Check(h *Handshake, proof []byte) (b Bond, ok bool) {
	for _, k := range *s.keys.Load() {
		if hmac.Equal(proof, h.mac(k.link, Opener)) {
			return h.mac(k.link, bond), true
		}
	}
	return nil, false
}

// Bond is a key that only the two ends of a handshake know: derived from the secret, it is never sent. With it, an end shows on another
// connection that it is the process that took part in the handshake.
type Bond []byte

// Sign returns the proof, for one purpose and a nonce, that its maker has the bond.
func (b Bond) Sign(purpose string, nonce []byte) []byte { return mac(b, []byte(purpose), nonce) }

// Check reports whether a proof is Sign's. No proof is one of an empty bond.
func (b Bond) Check(purpose string, nonce, proof []byte) bool {
	return len(b) > 0 && hmac.Equal(proof, b.Sign(purpose, nonce))
}

// mac returns the MAC of a whole handshake.
func (h *Handshake) mac(key []byte, side Side) []byte {
	parts := [][]byte{[]byte(side)}
	for _, p := range []Party{h.Opener, h.Acceptor} {
		parts = append(parts, []byte(p.Task), []byte(p.Address), binary.BigEndian.AppendUint64(nil, p.Boot))
	}
	return mac(key, append(parts, h.OpenerNonce, h.AcceptorNonce)...)
}

// mac returns the MAC of parts, each preceded by its length, so that no two lists of parts have the same encoding.
func mac(key []byte, parts ...[]byte) []byte {
	m := hmac.New(sha256.New, key)
	for _, p := range parts {
		m.Write(binary.BigEndian.AppendUint64(nil, uint64(len(p))))
		m.Write(p)
	}
	return m.Sum(nil)
}
