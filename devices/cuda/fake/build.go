//go:build linux

package fake

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// TB is the part of testing.TB that Build needs.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
}

// Build returns the path of a libcuda.so.1 with the repository's kernels; libcublas.so.12 is in the same folder. Both are cached in the
// user's cache directory, by a hash of their sources. Without g++ it skips the test or, in CI (CI=true), fails it. It may be called
// concurrently, also by several processes.
func Build(t TB) string {
	t.Helper()
	needCompiler(t)
	lib, err := libraries()
	if err != nil {
		t.Fatalf("building the fake CUDA driver: %v", err)
	}
	return lib
}

func needCompiler(t TB) {
	t.Helper()
	_, err := exec.LookPath("g++")
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatalf("CI needs g++ for the fake CUDA driver: %v", err)
	}
	if err != nil {
		t.Skipf("no g++, so nothing runs on the fake CUDA driver: %v", err)
	}
}

var libraries = sync.OnceValues(func() (string, error) {
	root, err := repository()
	if err != nil {
		return "", err
	}
	kernels := filepath.Join(root, "kernels", "cuda")
	return buildFrom(kernels, kernels, filepath.Join(root, "devices", "cuda", "fake", "driver"))
})

// repository returns the folder of go.mod above the working directory, which is a test's package.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("no go.mod above %s", dir)
		}
	}
}

var flags = []string{
	"-std=c++20", "-fPIC", "-fvisibility=hidden", "-fno-exceptions", "-fno-strict-aliasing",
	"-fno-math-errno", "-ffp-contract=off", "-fwrapv",
}

// A unit is a source to compile.
type unit struct {
	name    string // of the object file
	text    string
	headers string // the text of the included headers, except the driver's
	flags   []string
	kernel  bool // its variables are the shared memory of kernels
}

// buildFrom builds the driver in one folder with the kernels in another; the kernels' headers are in a third.
func buildFrom(kernels, headers, driver string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	b := &builder{dir: filepath.Join(cache, "troupe", "fakecuda"), kernels: kernels, include: headers, driver: driver}
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return "", err
	}
	unlock, err := b.lock()
	if err != nil {
		return "", err
	}
	defer unlock()
	if err := b.readHeaders(); err != nil {
		return "", err
	}
	units, err := b.units()
	if err != nil {
		return "", err
	}
	objects, err := b.compileAll(units)
	if err != nil {
		return "", err
	}
	return b.link(units, objects)
}

// A builder caches its results in dir, by a hash of all inputs.
type builder struct {
	dir, kernels, include, driver string
	interfaces                    string // the driver's headers, which all units depend on
	compiler                      string // the compiler's version
}

// lock allows one process at a time to build; the others then find the result.
func (b *builder) lock() (func(), error) {
	f, err := os.OpenFile(filepath.Join(b.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", f.Name(), err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}

func (b *builder) readHeaders() error {
	version, err := exec.Command("g++", "--version").Output()
	if err != nil {
		return err
	}
	b.compiler = string(version)
	files, err := filepath.Glob(filepath.Join(b.driver, "*.h"))
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		b.interfaces += string(text)
	}
	return nil
}

var includes = regexp.MustCompile(`(?m)^#include "(.*)"$`)

// included returns the text of the headers that a kernel source includes, transitively.
func (b *builder) included(text string) (string, error) {
	var all strings.Builder
	var seen []string
	for queue := []string{text}; len(queue) > 0; queue = queue[1:] {
		for _, m := range includes.FindAllStringSubmatch(queue[0], -1) {
			if slices.Contains(seen, m[1]) {
				continue
			}
			header, err := os.ReadFile(filepath.Join(b.include, m[1]))
			if err != nil {
				return "", err
			}
			seen = append(seen, m[1])
			queue = append(queue, string(header))
			all.Write(header)
		}
	}
	return all.String(), nil
}

var entry = regexp.MustCompile(`(?m)^\.visible \.entry (\w+)\(`)

// units returns the driver's sources, and one unit for each PTX file: the kernels' source followed by the registration of each kernel in
// the PTX.
func (b *builder) units() ([]unit, error) {
	var all []unit
	sources, err := filepath.Glob(filepath.Join(b.driver, "*.cc"))
	if err != nil {
		return nil, err
	}
	for _, file := range sources {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		all = append(all, unit{name: strings.TrimSuffix(filepath.Base(file), ".cc"), text: string(text), flags: []string{"-O2", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers"}})
	}
	modules, err := filepath.Glob(filepath.Join(b.kernels, "ptx", "*.ptx"))
	if err != nil {
		return nil, err
	}
	for _, file := range modules {
		ptx, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(filepath.Base(file), ".ptx")
		source := filepath.Join(b.kernels, name+".cu")
		text, err := os.ReadFile(source)
		if err != nil {
			return nil, err
		}
		headers, err := b.included(string(text))
		if err != nil {
			return nil, err
		}
		var u strings.Builder
		fmt.Fprintf(&u, "#line 1 %q\n%s\n#include \"register.h\"\nFAKE_SHARED(%s)\n", name+".cu", text, name)
		for _, m := range entry.FindAllStringSubmatch(string(ptx), -1) {
			fmt.Fprintf(&u, "FAKE_REGISTER(%s)\n", m[1])
		}
		all = append(all, unit{name: "kernels_" + name, text: u.String(), headers: headers, flags: []string{"-O1", "-w"}, kernel: true})
	}
	return all, nil
}

func sum(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d\n%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil)[:10])
}

// compileAll returns the object file of each unit. It compiles missing ones on all cores.
func (b *builder) compileAll(units []unit) ([]string, error) {
	objects, failed := make([]string, len(units)), make([]error, len(units))
	next := make(chan int)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := range next {
				objects[i], failed[i] = b.compile(units[i])
			}
		})
	}
	for i := range units {
		next <- i
	}
	close(next)
	wg.Wait()
	return objects, errors.Join(failed...)
}

func (b *builder) compile(u unit) (string, error) {
	args := slices.Concat(flags, u.flags)
	object := filepath.Join(b.dir, u.name+"-"+sum(b.compiler, strings.Join(args, " "), b.interfaces, u.headers, u.text)+".o")
	return object, b.once(object, func(made string) error {
		args := append(args, "-I"+b.include, "-I"+b.driver, "-x", "c++", "-c", "-", "-o", made)
		return gpp(args, u.text)
	})
}

// link links the objects into the libraries: those named cublas into one, all others into the driver.
func (b *builder) link(units []unit, objects []string) (string, error) {
	var script strings.Builder
	script.WriteString("SECTIONS\n{\n  fake_shared (NOLOAD) :\n  {\n")
	var cuda, blas []string
	for i, u := range units {
		if strings.HasPrefix(u.name, "cublas") {
			blas = append(blas, objects[i])
			continue
		}
		cuda = append(cuda, objects[i])
		if u.kernel {
			name := strings.TrimPrefix(u.name, "kernels_")
			fmt.Fprintf(&script, "    . = ALIGN(64);\n    fake_shared_%[1]s_begin = .;\n    *%[2]s(.bss .bss.*)\n    fake_shared_%[1]s_end = .;\n", name, filepath.Base(objects[i]))
		}
	}
	script.WriteString("  }\n}\nINSERT AFTER .bss;\n")
	dir := filepath.Join(b.dir, "lib-"+sum(append(slices.Clone(objects), script.String())...))
	lib := filepath.Join(dir, "libcuda.so.1")
	return lib, b.once(dir, func(made string) error {
		if err := os.MkdirAll(made, 0o755); err != nil {
			return err
		}
		layout := filepath.Join(made, "shared.ld")
		if err := os.WriteFile(layout, []byte(script.String()), 0o644); err != nil {
			return err
		}
		shared := []string{"-shared", "-Wl,-Bsymbolic", "-Wl,--no-undefined", "-lpthread"}
		cudaLib := filepath.Join(made, "libcuda.so.1")
		if err := gpp(slices.Concat(cuda, shared, []string{"-Wl,-soname,libcuda.so.1", "-Wl,-T," + layout, "-o", cudaLib}), ""); err != nil {
			return err
		}
		if len(blas) == 0 {
			return nil
		}
		return gpp(slices.Concat(blas, []string{cudaLib}, shared, []string{"-Wl,-soname,libcublas.so.12", "-Wl,-rpath,$ORIGIN", "-o", filepath.Join(made, "libcublas.so.12")}), "")
	})
}

// once creates path if it does not exist, and removes files that have not been used for a long time. An existing path is marked as used
// now.
func (b *builder) once(path string, create func(made string) error) error {
	now := time.Now()
	if err := os.Chtimes(path, now, now); err == nil {
		return nil
	}
	if err := b.prune(now.Add(-14 * 24 * time.Hour)); err != nil {
		return err
	}
	made := path + ".part"
	if err := create(made); err != nil {
		return errors.Join(err, os.RemoveAll(made))
	}
	return os.Rename(made, path)
}

func (b *builder) prune(before time.Time) error {
	files, err := os.ReadDir(b.dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		if info, err := f.Info(); err == nil && f.Name() != "lock" && info.ModTime().Before(before) {
			if err := os.RemoveAll(filepath.Join(b.dir, f.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

func gpp(args []string, stdin string) error {
	cmd := exec.Command("g++", args...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("g++ %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}
