// Wheel downloads a Python wheel and unpacks it, for machines without Python: headers.sh fetches CUDA's headers with it.
//
//	go run ./devices/cuda/wheel ADDRESS SHA256 FOLDER
package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// limit bounds the size of the download.
const limit = 256 << 20

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: wheel ADDRESS SHA256 FOLDER")
		os.Exit(2)
	}
	if err := fetch(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "wheel:", err)
		os.Exit(1)
	}
}

// fetch unpacks the wheel into a folder that must not exist yet.
func fetch(address, sum, folder string) (err error) {
	client := http.Client{Timeout: 5 * time.Minute}
	answer, err := client.Get(address)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", address, answer.Status)
	}
	data, err := io.ReadAll(io.LimitReader(answer.Body, limit))
	if err != nil {
		return fmt.Errorf("%s: %w", address, err)
	}
	if have := sha256.Sum256(data); hex.EncodeToString(have[:]) != sum {
		return fmt.Errorf("%s has the SHA-256 %x, not %s", address, have, sum)
	}
	files, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return err
	}
	return os.CopyFS(folder, files)
}
