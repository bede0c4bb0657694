package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFetch(t *testing.T) {
	var wheel bytes.Buffer
	z := zip.NewWriter(&wheel)
	f, err := z.Create("nvidia/include/cuda.h")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("#define CUDA_VERSION 12090\n")); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(wheel.Bytes())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/wheel" {
			http.NotFound(w, r)
			return
		}
		if _, err := w.Write(wheel.Bytes()); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	for _, c := range []struct{ path, sum, err string }{
		{"/wheel", hex.EncodeToString(sum[:]), ""},
		{"/wheel", strings.Repeat("0", 64), "has the SHA-256"},
		{"/other", hex.EncodeToString(sum[:]), "404"},
	} {
		folder := filepath.Join(t.TempDir(), "wheel")
		err := fetch(server.URL+c.path, c.sum, folder)
		text, missing := os.ReadFile(filepath.Join(folder, "nvidia", "include", "cuda.h"))
		switch {
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err) || missing == nil):
			t.Errorf("%s: got %v, want %q", c.path, err, c.err)
		case c.err == "" && (err != nil || missing != nil || !strings.HasPrefix(string(text), "#define")):
			t.Errorf("got %q: %v, %v", text, err, missing)
		}
	}
}
