package trust

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
)

func line(fill string) string {
	return base64.StdEncoding.EncodeToString([]byte(strings.Repeat(fill, 32)))
}

func file(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// Errors about a file name the line, but never contain its content.
func TestFilesThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
		code status.Code
		want string
	}{
		"empty":     {"# nothing\n\n", 0o600, status.InvalidArgument, "has no secret"},
		"no base64": {line("a") + "\nsesame!\n", 0o600, status.InvalidArgument, "secret:2: a secret must be base64"},
		"too short": {"c2VzYW1l\n", 0o600, status.InvalidArgument, "secret:1: the secret has 6 bytes; it needs 16 at least"},
		"too many":  {strings.Repeat(line("a")+"\n", maxSecrets+1), 0o600, status.InvalidArgument, "more than 8"},
		"too large": {strings.Repeat("#", maxFile+1), 0o600, status.InvalidArgument, "the limit is"},
		"readable":  {line("a"), 0o644, status.PermissionDenied, "chmod 600"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(file(t, c.text, c.mode))
			if status.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "sesame") {
				t.Errorf("%v: %v", status.CodeOf(err), err)
			}
		})
	}
	if _, err := Load(t.TempDir()); status.CodeOf(err) != status.InvalidArgument {
		t.Errorf("a folder: %v", err)
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none")); status.CodeOf(err) != status.InvalidArgument {
		t.Errorf("no file: %v", err)
	}
}

// Reloading an invalid file changes nothing.
func TestReload(t *testing.T) {
	path := file(t, line("a"), 0o600)
	s, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	before := s.Gossip()
	if err := os.WriteFile(path, []byte("?"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s.Reload() == nil || !bytes.Equal(s.Gossip()[0], before[0]) {
		t.Error("a file that is no secret took the place of one")
	}
	if err := os.WriteFile(path, []byte(line("b")+"\n"+line("a")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	if after := s.Gossip(); len(after) != 2 || !bytes.Equal(after[1], before[0]) || bytes.Equal(after[0], before[0]) {
		t.Errorf("%d keys", len(after))
	}
}

// A proof is valid for one handshake, one side and one secret.
func TestProofs(t *testing.T) {
	a, err := Load(file(t, line("a"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	b, err := Load(file(t, line("b"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	h := Handshake{Opener: Party{"/job:worker/task:0", "a:1", 1}, Acceptor: Party{"/job:ps/task:0", "b:1", 2}, OpenerNonce: []byte("12"), AcceptorNonce: []byte("3")}
	proof := a.Prove(Acceptor, &h)
	answer, bond, ok := a.Answer(&h, proof)
	theirs, holds := a.Check(&h, answer)
	if !ok || !holds {
		t.Error("a proof does not hold")
	}
	if _, holds := a.Check(&h, proof); holds {
		t.Error("a proof of one side holds for the other one")
	}
	if _, _, ok := a.Answer(&h, answer); ok {
		t.Error("a proof of one side holds for the other one")
	}
	if _, holds := b.Check(&h, answer); holds {
		t.Error("a proof holds for another secret")
	}
	signed := bond.Sign("purpose", []byte("nonce"))
	if !theirs.Check("purpose", []byte("nonce"), signed) {
		t.Error("the two ends have different bonds")
	}
	for name, wrong := range map[string]bool{
		"another purpose": theirs.Check("purposes", []byte("nonce"), signed),
		"another nonce":   theirs.Check("purpose", []byte("once"), signed),
		"no proof":        theirs.Check("purpose", []byte("nonce"), nil),
		"no bond":         Bond(nil).Check("purpose", []byte("nonce"), Bond(nil).Sign("purpose", []byte("nonce"))),
		"a proof":         Bond(answer).Check("purpose", []byte("nonce"), signed),
	} {
		if wrong {
			t.Errorf("%s: a bond's proof holds", name)
		}
	}
	for name, change := range map[string]func(*Handshake){
		"task":    func(h *Handshake) { h.Opener.Task += "0" },
		"address": func(h *Handshake) { h.Acceptor.Address += "0" },
		"boot":    func(h *Handshake) { h.Opener.Boot++ },
		"nonce":   func(h *Handshake) { h.OpenerNonce = []byte("1") },
		"shifted": func(h *Handshake) { h.OpenerNonce, h.AcceptorNonce = []byte("1"), []byte("23") },
		"swapped": func(h *Handshake) { h.Opener, h.Acceptor = h.Acceptor, h.Opener },
	} {
		other := h
		change(&other)
		if _, holds := a.Check(&other, answer); holds {
			t.Errorf("%s: a proof holds for another handshake", name)
		}
	}
}

// Any content of a file is refused or yields keys, and errors contain none of it.
func FuzzSecretFile(f *testing.F) {
	f.Add([]byte(line("a") + "\n# b\n" + line("b")))
	f.Add([]byte("c2VzYW1l"))
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := parse("f", text)
		if (err == nil) != (len(all) > 0) || len(all) > maxSecrets {
			t.Errorf("%d secrets, %v", len(all), err)
		}
		for _, k := range all {
			if len(k.link) != keySize || len(k.gossip) != keySize {
				t.Error("a key is short")
			}
		}
	})
}
