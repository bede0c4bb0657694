// Package cuda has the kernels of CUDA devices: their sources (*.cu, in CUDA C on top of troupe.cuh), the PTX
// that build.sh makes of them, and the module that each kernel is in.
//
// Only binaries with the build tag cuda contain the PTX, compressed in ptx.zip, which `go generate` makes of the
// files in ptx. A driver compiles a module for its card when it loads it, so modules are unpacked and loaded when one
// of their kernels is first needed.
package cuda

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
)

//go:generate go run ./pack

// A module is one PTX file.
type module struct {
	name string // the source's, without .cu
	text string
}

// packed is a module of the binary, which is unpacked when it is first needed.
type packed struct {
	name, id string
	text     func() (string, error)
}

// Module gives the PTX that defines a kernel, and a name for it that no other module has and that
// changes with its text, so that loaded modules can be kept by it. ok is false where no module has the
// kernel, and without the tag cuda. It may be called concurrently.
func Module(function string) (name, ptx string, ok bool) {
	m, ok := index()[function]
	if !ok {
		return "", "", false
	}
	text, err := m.text()
	if err != nil {
		panic(err) // it is about the binary's own files, and a test reads them too
	}
	return m.name + "-" + m.id, text, true
}

// Functions are the names of all kernels in order; none without the tag cuda.
func Functions() []string { return slices.Sorted(maps.Keys(index())) }

var index = sync.OnceValue(func() map[string]*packed {
	if compiled == nil {
		return nil
	}
	byFunction, err := unpack(compiled)
	if err != nil {
		panic(err)
	}
	return byFunction
})

// contents is the file of ptx.zip that has a line for each module: its name, the start of its hash, and its kernels.
const contents = "contents"

// Pack writes the PTX files of a folder ptx to an archive as binaries contain it.
func Pack(w io.Writer, folder fs.FS) error {
	modules, err := readModules(folder)
	if err != nil {
		return err
	}
	z := zip.NewWriter(w)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) })
	var list strings.Builder
	for _, m := range modules {
		sum := sha256.Sum256([]byte(m.text))
		fmt.Fprintln(&list, m.name, hex.EncodeToString(sum[:6]), strings.Join(entries(m.text), " "))
		if err := add(z, m.name, m.text); err != nil {
			return err
		}
	}
	return errors.Join(add(z, contents, list.String()), z.Close())
}

func add(z *zip.Writer, name, text string) error {
	f, err := z.Create(name)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, text)
	return err
}

// unpack reads the contents of an archive.
func unpack(archive []byte) (map[string]*packed, error) {
	files, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return nil, err
	}
	list, err := fs.ReadFile(files, contents)
	if err != nil {
		return nil, err
	}
	byFunction := map[string]*packed{}
	for line := range strings.Lines(string(list)) {
		fields := strings.Fields(line)
		if len(fields) < 3 {
			return nil, fmt.Errorf("a module without a kernel: %q", line)
		}
		m := &packed{name: fields[0], id: fields[1]}
		m.text = sync.OnceValues(func() (string, error) {
			text, err := fs.ReadFile(files, m.name)
			return string(text), err
		})
		for _, f := range fields[2:] {
			byFunction[f] = m
		}
	}
	return byFunction, nil
}

// readModules reads the PTX files of a folder ptx.
func readModules(folder fs.FS) ([]*module, error) {
	files, err := fs.Glob(folder, "ptx/*.ptx")
	if err != nil {
		return nil, err
	}
	var all []*module
	for _, file := range files {
		text, err := fs.ReadFile(folder, file)
		if err != nil {
			return nil, err
		}
		if bytes.IndexByte(text, 0) >= 0 { // the driver reads up to the first
			return nil, fmt.Errorf("%s: a zero byte in PTX", file)
		}
		all = append(all, &module{strings.TrimSuffix(path.Base(file), ".ptx"), string(text)})
	}
	return all, nil
}

var entry = regexp.MustCompile(`(?m)^\.visible \.entry (\w+)\(`)

// entries are the kernels that PTX defines.
func entries(ptx string) []string {
	var names []string
	for _, m := range entry.FindAllStringSubmatch(ptx, -1) {
		names = append(names, m[1])
	}
	return names
}
