// Package cuda has the kernels of CUDA devices: their sources (*.cu, in CUDA C on top of troupe.cuh), the PTX
// that build.sh makes of them, and the module that each kernel is in.
//
// Only binaries with the build tag cuda contain the PTX. A driver compiles a module for its card when it loads
// it, so modules are loaded when one of their kernels is first needed.
package cuda

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// A module is one PTX file.
type module struct {
	name string // the source's, without .cu
	text string
}

// Module gives the PTX that defines a kernel, and a name for it that no other module has and that
// changes with its text, so that loaded modules can be kept by it. ok is false where no module has the
// kernel, and without the tag cuda. It may be called concurrently.
func Module(function string) (name, ptx string, ok bool) {
	m, ok := index()[function]
	if !ok {
		return "", "", false
	}
	sum := sha256.Sum256([]byte(m.text))
	return m.name + "-" + hex.EncodeToString(sum[:6]), m.text, true
}

// Functions are the names of all kernels in order; none without the tag cuda.
func Functions() []string { return slices.Sorted(maps.Keys(index())) }

var index = sync.OnceValue(func() map[string]*module {
	if compiled == nil {
		return nil
	}
	modules, err := readModules(compiled)
	if err != nil {
		panic(err) // it is about the binary's own files, and a test reads them too
	}
	byFunction := map[string]*module{}
	for _, m := range modules {
		for _, f := range entries(m.text) {
			byFunction[f] = m
		}
	}
	return byFunction
})

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
