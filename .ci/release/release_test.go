// Package release tests what .goreleaser.yaml has made in dist: packages, archives and image for linux/amd64. `make test-release` makes
// them and runs the tests.
package release

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/blakesmith/ar"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/sassoftware/go-rpmutils"
)

const (
	root = "../.."
	dist = root + "/dist"

	maxImage = 40 << 20 // bytes, compressed
)

// entry is a file of a package.
type entry struct {
	mode    os.FileMode
	content []byte
}

// metadata is what goreleaser tells of the release.
type metadata struct {
	Version, Commit string
}

func readMetadata(t *testing.T) metadata {
	t.Helper()
	var m metadata
	if err := json.Unmarshal(read(t, dist+"/metadata.json"), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// made is the one file of dist with a name of this form.
func made(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dist, pattern))
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 {
		t.Fatalf("dist has the files %q like %s, not one", found, pattern)
	}
	return found[0]
}

// untar reads the files of a compressed archive, whose names are those in the root folder.
func untar(t *testing.T, r io.Reader) map[string]entry {
	t.Helper()
	unpacked, err := gzip.NewReader(r)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]entry{}
	for archive := tar.NewReader(unpacked); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeDir {
			continue
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Join("/", h.Name)] = entry{h.FileInfo().Mode(), content}
	}
}

// deb reads a Debian package: what it says of itself, and its files.
func deb(t *testing.T, path string) (control, files map[string]entry) {
	t.Helper()
	for archive := ar.NewReader(bytes.NewReader(read(t, path))); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return control, files
		}
		if err != nil {
			t.Fatal(err)
		}
		switch strings.TrimSuffix(h.Name, "/") {
		case "control.tar.gz":
			control = untar(t, archive)
		case "data.tar.gz":
			files = untar(t, archive)
		}
	}
}

// rpm reads an RPM package.
func rpm(t *testing.T, path string) (*rpmutils.Rpm, map[string]entry) {
	t.Helper()
	p, err := rpmutils.ReadRpm(bytes.NewReader(read(t, path)))
	if err != nil {
		t.Fatal(err)
	}
	payload, err := p.PayloadReaderExtended()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]entry{}
	for {
		info, err := payload.Next()
		if errors.Is(err, io.EOF) {
			return p, files
		}
		if err != nil {
			t.Fatal(err)
		}
		if os.FileMode(info.Mode())&0o170000 == 0o040000 { // a folder
			continue
		}
		content, err := io.ReadAll(payload)
		if err != nil {
			t.Fatal(err)
		}
		files[info.Name()] = entry{os.FileMode(info.Mode() & 0o777), content}
	}
}

// commands are the files that a package has for each of the program's commands, as its own help lists them.
var commands = []string{"", "-serve", "-up", "-demo", "-status", "-version", "-certs-init", "-context-use"}

// examples are the files of deploy that packages and archives contain as examples: all but the unit, which they install, and their own scripts.
func examples(t *testing.T) (names []string) {
	t.Helper()
	if err := fs.WalkDir(os.DirFS(root+"/deploy"), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasPrefix(name, "packages/") && !strings.HasPrefix(name, "systemd/") {
			names = append(names, name)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if len(names) < 10 {
		t.Fatalf("deploy has the examples %q", names)
	}
	return names
}

// checkFiles checks the files that both kinds of packages have.
func checkFiles(t *testing.T, files map[string]entry, zsh, licence string) {
	t.Helper()
	want := map[string]os.FileMode{
		"/usr/bin/troupe":                                  0o755,
		"/usr/lib/systemd/system/troupe@.service":          0o644,
		"/etc/troupe/example.env":                          0o644,
		"/usr/share/bash-completion/completions/troupe":    0o644,
		"/usr/share/fish/vendor_completions.d/troupe.fish": 0o644,
		"/usr/share/doc/troupe/CHANGELOG.md":               0o644,
		zsh:                                                0o644,
		licence:                                            0o644,
	}
	for _, name := range examples(t) {
		want["/usr/share/doc/troupe/examples/"+name] = 0o644
	}
	for _, c := range commands {
		want["/usr/share/man/man1/troupe"+c+".1.gz"] = 0o644
	}
	for name, mode := range want {
		f, ok := files[name]
		switch {
		case !ok:
			t.Errorf("%s is missing", name)
		case f.mode.Perm() != mode:
			t.Errorf("%s has mode %o, not %o", name, f.mode.Perm(), mode)
		case len(f.content) == 0:
			t.Errorf("%s is empty", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if _, ok := want[name]; !ok && !strings.HasPrefix(name, "/usr/share/man/man1/troupe-") {
			t.Errorf("the package has %s, which nobody expects", name)
		}
	}
}

// unpack writes a package's files below a folder, and gives the folder.
func unpack(t *testing.T, files map[string]entry) string {
	t.Helper()
	folder := t.TempDir()
	for name, f := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.content, f.mode.Perm()); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// program is where a program is that a check needs; the test is skipped without it.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed", name)
	}
	return path
}

// output runs a program, and gives what it printed.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

func TestDeb(t *testing.T) {
	control, files := deb(t, made(t, "troupe_*_amd64.deb"))
	checkFiles(t, files, "/usr/share/zsh/vendor-completions/_troupe", "/usr/share/doc/troupe/copyright")
	m := readMetadata(t)
	for _, line := range []string{"Package: troupe", "Architecture: amd64", "Section: net", "Version: " + strings.Replace(m.Version, "-", "~", 1)} {
		if !strings.Contains(string(control["/control"].content), line+"\n") {
			t.Errorf("the control file lacks %q:\n%s", line, control["/control"].content)
		}
	}
	if got := strings.TrimSpace(string(control["/conffiles"].content)); got != "/etc/troupe/example.env" {
		t.Errorf("the files of configuration are %q", got)
	}
	scripts := unpack(t, control)
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		output(t, "sh", "-n", filepath.Join(scripts, script))
	}
}

// TestLintian and TestRPMLint check the packages by the rules of distributions. Which of them do not hold, and why, is in files beside the scripts that
// install the packages (.ci/platforms).
func TestLintian(t *testing.T) {
	lintian := program(t, "lintian")
	var tags []string
	for line := range strings.Lines(string(read(t, root+"/.ci/platforms/lintian-tags"))) {
		tag, reason, ok := strings.Cut(line, "#")
		if tag = strings.TrimSpace(tag); tag == "" {
			continue
		}
		if !ok || strings.TrimSpace(reason) == "" {
			t.Errorf("nothing says why %s stays", tag)
		}
		tags = append(tags, tag)
	}
	output(t, lintian, "--allow-root", "--fail-on", "error,warning", "--suppress-tags", strings.Join(tags, ","), made(t, "troupe_*_amd64.deb"))
}

func TestRPMLint(t *testing.T) {
	out := output(t, program(t, "rpmlint"), "--config", root+"/.ci/platforms/rpmlint.toml", made(t, "troupe-*.x86_64.rpm"))
	if !strings.Contains(out, " 0 errors, 0 warnings") {
		t.Error(out)
	}
}

func TestArchive(t *testing.T) {
	files := untar(t, bytes.NewReader(read(t, made(t, "troupe_*_linux_amd64.tar.gz"))))
	folder := "/troupe_" + readMetadata(t).Version + "_linux_amd64/"
	want := map[string]string{"systemd/troupe@.service": "systemd/troupe@.service", "systemd/example.env": "systemd/example.env"}
	for _, name := range examples(t) {
		want["examples/"+name] = name
	}
	for name, of := range want {
		if f, ok := files[folder+name]; !ok || !bytes.Equal(f.content, read(t, root+"/deploy/"+of)) || f.mode.Perm() != 0o644 {
			t.Errorf("%s is not deploy/%s", name, of)
		}
	}
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md", "troupe", "man/troupe.1.gz", "completions/_troupe"} {
		if len(files[folder+name].content) == 0 {
			t.Errorf("%s is missing", name)
		}
	}
}

func TestRPM(t *testing.T) {
	p, files := rpm(t, made(t, "troupe-*.x86_64.rpm"))
	checkFiles(t, files, "/usr/share/zsh/site-functions/_troupe", "/usr/share/licenses/troupe/LICENSE")
	nevra, err := p.Header.GetNEVRA()
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Replace(readMetadata(t).Version, "-", "~", 1); nevra.Name != "troupe" || nevra.Version != want || nevra.Arch != "x86_64" {
		t.Errorf("the package is %v, not troupe %s for x86_64", nevra, want)
	}
	infos, err := p.Header.GetFiles()
	if err != nil {
		t.Fatal(err)
	}
	// RPM removes the folders that a package owns. Others' are those of the system, and /etc/troupe, where people have files of their own.
	owned := map[string]bool{}
	for _, f := range infos {
		owned[f.Name()] = true
	}
	for _, f := range infos {
		for folder := filepath.Dir(f.Name()); strings.Contains(folder, "/troupe") && folder != "/etc/troupe"; folder = filepath.Dir(folder) {
			if !owned[folder] {
				t.Errorf("the package does not own the folder %s of %s", folder, f.Name())
			}
		}
	}
	const noReplace = rpmutils.RPMFILE_CONFIG | rpmutils.RPMFILE_NOREPLACE
	for _, f := range infos {
		if config := f.Flags()&noReplace == noReplace; config != (f.Name() == "/etc/troupe/example.env") {
			t.Errorf("%s has flags %x", f.Name(), f.Flags())
		}
		folder := f.Mode()&0o170000 == 0o040000
		if doc := f.Flags()&rpmutils.RPMFILE_DOC != 0; !folder && doc != (strings.HasPrefix(f.Name(), "/usr/share/man/") || strings.HasPrefix(f.Name(), "/usr/share/doc/troupe/")) {
			t.Errorf("%s is documentation: %v", f.Name(), doc)
		}
	}
}

// TestBothPackagesHaveTheSameFiles checks what is listed one by one for RPM against Debian's patterns: man pages and examples.
func TestBothPackagesHaveTheSameFiles(t *testing.T) {
	_, debs := deb(t, made(t, "troupe_*_amd64.deb"))
	_, rpms := rpm(t, made(t, "troupe-*.x86_64.rpm"))
	for _, prefix := range []string{"/usr/share/man/", "/usr/share/doc/troupe/examples/"} {
		list := func(files map[string]entry) (names []string) {
			for name := range files {
				if strings.HasPrefix(name, prefix) {
					names = append(names, name)
				}
			}
			slices.Sort(names)
			return names
		}
		if d, r := list(debs), list(rpms); len(d) == 0 || !slices.Equal(d, r) {
			t.Errorf("the Debian package has %q, and the RPM %q", d, r)
		}
	}
}

// TestBothPackagesHaveTheProgram holds that all that was made has one program, which knows version, commit and date.
func TestBothPackagesHaveTheProgram(t *testing.T) {
	_, debs := deb(t, made(t, "troupe_*_amd64.deb"))
	_, rpms := rpm(t, made(t, "troupe-*.x86_64.rpm"))
	if !bytes.Equal(debs["/usr/bin/troupe"].content, rpms["/usr/bin/troupe"].content) {
		t.Error("the packages have different programs")
	}
	m := readMetadata(t)
	archived := untar(t, bytes.NewReader(read(t, made(t, "troupe_*_linux_amd64.tar.gz"))))
	if !bytes.Equal(debs["/usr/bin/troupe"].content, archived["/troupe_"+m.Version+"_linux_amd64/troupe"].content) {
		t.Error("the archive has another program than the packages")
	}
	var got struct {
		Version, Commit, Date, Platform string
		Modified                        bool
	}
	if err := json.Unmarshal([]byte(output(t, filepath.Join(unpack(t, debs), "usr/bin/troupe"), "version", "--json")), &got); err != nil {
		t.Fatal(err)
	}
	if got.Version != "v"+m.Version || got.Commit != m.Commit || got.Platform != "linux/amd64" || got.Modified {
		t.Errorf("the program is %+v; the release is %+v", got, m)
	}
	if _, err := time.Parse(time.RFC3339, got.Date); err != nil {
		t.Errorf("the program's date: %v", err)
	}
}

func TestUnit(t *testing.T) {
	analyze := program(t, "systemd-analyze")
	_, files := deb(t, made(t, "troupe_*_amd64.deb"))
	folder := unpack(t, files)
	// The unit is checked with the packaged program in the place that it names.
	unit := strings.ReplaceAll(string(files["/usr/lib/systemd/system/troupe@.service"].content), "/usr/bin/troupe", filepath.Join(folder, "usr/bin/troupe"))
	path := filepath.Join(folder, "troupe@test.service")
	if err := os.WriteFile(path, []byte(unit), 0o644); err != nil {
		t.Fatal(err)
	}
	if out := output(t, analyze, "verify", "--man=no", path); strings.Contains(out, "troupe") {
		t.Errorf("systemd-analyze verify:\n%s", out)
	}
	// Exposure goes from 0 to 100. What is left is the network.
	output(t, analyze, "security", "--offline=yes", "--no-pager", "--threshold=20", path)

	// The journal names the file of a task that does not start without it by the description alone.
	file := regexp.MustCompile(`(?m)^EnvironmentFile=(.*)$`).FindStringSubmatch(unit)
	if file == nil || !strings.Contains(unit, "\nAssertPathExists="+file[1]+"\n") || !regexp.MustCompile(`(?m)^Description=.* `+regexp.QuoteMeta(file[1])+`$`).MatchString(unit) {
		t.Errorf("the unit does not ask for its EnvironmentFile, or does not describe itself by it: %q", file)
	}

	drain := regexp.MustCompile(`--drain=(\d+s)`).FindStringSubmatch(unit)
	stop := regexp.MustCompile(`(?m)^TimeoutStopSec=(\d+s)$`).FindStringSubmatch(unit)
	if drain == nil || stop == nil {
		t.Fatal("the unit lacks --drain or TimeoutStopSec")
	}
	drained, err := time.ParseDuration(drain[1])
	if err != nil {
		t.Fatal(err)
	}
	stopped, err := time.ParseDuration(stop[1])
	if err != nil {
		t.Fatal(err)
	}
	if stopped < drained+10*time.Second {
		t.Errorf("systemd kills a task after %v, which drains for %v", stopped, drained)
	}
}

// TestExampleConfiguration starts a task with the flags of the example, as systemd splits them.
func TestExampleConfiguration(t *testing.T) {
	_, files := deb(t, made(t, "troupe_*_amd64.deb"))
	flags := regexp.MustCompile(`(?m)^TROUPE_FLAGS=(.*)$`).FindStringSubmatch(string(files["/etc/troupe/example.env"].content))
	if flags == nil {
		t.Fatal("the example has no TROUPE_FLAGS")
	}
	args := append([]string{"serve", "--drain=20s"}, strings.Fields(flags[1])...)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, filepath.Join(unpack(t, files), "usr/bin/troupe"), args...).CombinedOutput()
	// The flags are understood, and the address is that of another machine.
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 3 || !strings.Contains(string(out), "10.0.0.1") {
		t.Errorf("the example ends with %v:\n%s", err, out)
	}
}

func TestManPages(t *testing.T) {
	groff := program(t, "groff")
	_, files := deb(t, made(t, "troupe_*_amd64.deb"))
	pages := 0
	for name, f := range files {
		if !strings.HasPrefix(name, "/usr/share/man/") {
			continue
		}
		pages++
		r, err := gzip.NewReader(bytes.NewReader(f.content))
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), groff, "-man", "-K", "utf8", "-T", "utf8", "-ww", "-z")
		cmd.Stdin = r
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	if pages < len(commands) {
		t.Errorf("there are %d pages", pages)
	}
}

func TestCompletions(t *testing.T) {
	_, files := deb(t, made(t, "troupe_*_amd64.deb"))
	folder := unpack(t, files)
	for shell, path := range map[string]string{
		"bash": "/usr/share/bash-completion/completions/troupe",
		"fish": "/usr/share/fish/vendor_completions.d/troupe.fish",
		"zsh":  "/usr/share/zsh/vendor-completions/_troupe",
	} {
		t.Run(shell, func(t *testing.T) {
			if !strings.Contains(string(files[path].content), "__complete") {
				t.Errorf("%s does not ask the program", path)
			}
			output(t, program(t, shell), "-n", filepath.Join(folder, path))
		})
	}
}

func TestChecksums(t *testing.T) {
	listed := map[string]bool{}
	for line := range strings.Lines(string(read(t, dist+"/checksums.txt"))) {
		sum, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok {
			t.Fatalf("the line %q", line)
		}
		of := sha256.Sum256(read(t, filepath.Join(dist, name)))
		if hex.EncodeToString(of[:]) != sum {
			t.Errorf("the checksum of %s is wrong", name)
		}
		listed[name] = true
	}
	for _, pattern := range []string{"troupe_*_linux_amd64.tar.gz", "troupe_*_amd64.deb", "troupe-*.x86_64.rpm", "troupe_*_image.tar", "troupe_*_linux_amd64.cdx.json"} {
		if name := filepath.Base(made(t, pattern)); !listed[name] {
			t.Errorf("%s has no checksum", name)
		}
	}
}

func TestSBOM(t *testing.T) {
	var bom struct {
		BOMFormat string
		Metadata  struct {
			Component struct{ Name, Version string }
		}
		Components []struct{ Name, Version string }
	}
	if err := json.Unmarshal(read(t, made(t, "troupe_*_linux_amd64.cdx.json")), &bom); err != nil {
		t.Fatal(err)
	}
	own := bom.Metadata.Component
	if bom.BOMFormat != "CycloneDX" || own.Name != "github.com/troupe-run/troupe" || own.Version != "v"+readMetadata(t).Version {
		t.Errorf("the bill is a %s of %v", bom.BOMFormat, own)
	}
	for _, name := range []string{"std", "google.golang.org/grpc", "github.com/asynkron/protoactor-go"} {
		if !slices.ContainsFunc(bom.Components, func(c struct{ Name, Version string }) bool { return c.Name == name && c.Version != "" }) {
			t.Errorf("the bill lacks %s", name)
		}
	}
}

// platforms is the index of the only image of a layout, and what it has for each platform.
func platforms(t *testing.T, folder string) (v1.ImageIndex, []v1.Descriptor) {
	t.Helper()
	top, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := top.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	all, err := top.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if manifest, err = all.IndexManifest(); err != nil {
		t.Fatal(err)
	}
	return all, manifest.Manifests
}

// TestImageName checks that the layout and the archive give the image the name by which the manifests pull it.
func TestImageName(t *testing.T) {
	want := "ghcr.io/troupe-run/troupe:" + readMetadata(t).Version
	for where, text := range map[string][]byte{"image": read(t, dist+"/image/index.json"), "archive": archived(t, made(t, "troupe_*_image.tar"), "index.json")} {
		index, err := v1.ParseIndexManifest(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"org.opencontainers.image.ref.name", "io.containerd.image.name"} {
			if got := index.Manifests[0].Annotations[key]; got != want {
				t.Errorf("%s: %s is %q, not %q", where, key, got, want)
			}
		}
	}
}

// archived returns a file of a plain archive.
func archived(t *testing.T, path, name string) []byte {
	t.Helper()
	for archive := tar.NewReader(bytes.NewReader(read(t, path))); ; {
		h, err := archive.Next()
		if err != nil {
			t.Fatalf("%s in %s: %v", name, path, err)
		}
		if h.Name != name {
			continue
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
}

// image is the image for linux/amd64.
func image(t *testing.T, folder string) v1.Image {
	t.Helper()
	all, list := platforms(t, folder)
	for _, d := range list {
		if d.Platform.Equals(v1.Platform{OS: "linux", Architecture: "amd64"}) {
			img, err := all.Image(d.Digest)
			if err != nil {
				t.Fatal(err)
			}
			return img
		}
	}
	t.Fatal("the image is not for linux/amd64")
	return nil
}

func TestImage(t *testing.T) {
	img := image(t, dist+"/image")
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if c := config.Config; c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/usr/bin/troupe"}) || len(c.ExposedPorts) != 2 {
		t.Errorf("the configuration is %+v", c)
	}
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	var size int64
	for _, l := range layers {
		n, err := l.Size()
		if err != nil {
			t.Fatal(err)
		}
		size += n
	}
	if size > maxImage {
		t.Errorf("the layers have %d bytes, more than %d", size, maxImage)
	}
	if os.Getuid() != 0 {
		t.Skip("only root can change the root folder of a process")
	}
	folder := t.TempDir()
	unpackImage(t, img, folder)
	// The folders of the test are closed to others.
	for dir := folder; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	inside := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), config.Config.Entrypoint[0], args...)
		cmd.Env, cmd.Dir = config.Config.Env, "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: folder, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
		return cmd
	}
	if out, err := inside("version").CombinedOutput(); err != nil || !strings.Contains(string(out), "troupe v"+readMetadata(t).Version+" linux/amd64") {
		t.Errorf("version: %v: %s", err, out)
	}
	server := inside("serve", "--local=127.0.0.1:0")
	log, err := server.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	end := sync.OnceValue(func() error {
		return cmp.Or(server.Process.Signal(syscall.SIGTERM), server.Wait())
	})
	defer func() { _ = end() }() // where the test has failed before
	target, lines := "", bufio.NewScanner(log)
	for target == "" && lines.Scan() {
		if m := regexp.MustCompile(`msg=serving .*target=(grpc://\S+)`).FindStringSubmatch(lines.Text()); m != nil {
			target = m[1]
		} else {
			t.Log(lines.Text())
		}
	}
	if target == "" {
		t.Fatal("the server does not start")
	}
	out, err := inside("status", target).CombinedOutput()
	if err != nil || !regexp.MustCompile(`/task:0 .* up .* v`+regexp.QuoteMeta(readMetadata(t).Version)+` +1 CPU`).Match(out) {
		t.Errorf("status: %v:\n%s", err, out)
	}
	if err := end(); err != nil {
		t.Errorf("the server ended with %v", err)
	}
}

// unpackImage writes the files of an image below a folder.
func unpackImage(t *testing.T, img v1.Image, folder string) {
	t.Helper()
	flat := mutate.Extract(img)
	defer flat.Close()
	for archive := tar.NewReader(flat); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(folder, h.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		switch h.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(path, 0o755)
		case tar.TypeReg:
			var content []byte
			if content, err = io.ReadAll(archive); err == nil {
				err = os.WriteFile(path, content, h.FileInfo().Mode().Perm())
			}
		default:
			t.Fatalf("%s is neither a file nor a folder", h.Name)
		}
		if err == nil {
			err = os.Chmod(path, h.FileInfo().Mode())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestImageIsReproducible makes the image again, of the same program, and for another platform beside it.
func TestImageIsReproducible(t *testing.T) {
	img := image(t, dist+"/image")
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	labels := config.Config.Labels
	_, files := deb(t, made(t, "troupe_*_amd64.deb"))
	binary := filepath.Join(unpack(t, files), "usr/bin/troupe")
	out := filepath.Join(t.TempDir(), "image")
	for _, platform := range []string{"linux/arm64", "windows/amd64", "linux/amd64"} {
		output(t, "go", "run", "./image", "--binary", binary, "--platform", platform, "--name", "ghcr.io/troupe-run/troupe:"+readMetadata(t).Version, "--version", labels["org.opencontainers.image.version"],
			"--commit", labels["org.opencontainers.image.revision"], "--date", labels["org.opencontainers.image.created"], "--out", out, "--archive", out+".tar")
	}
	want, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	got, err := image(t, out).Digest()
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("the digest is %v, not %v", got, want)
	}
	if _, list := platforms(t, out); len(list) != 2 {
		t.Errorf("the image has %d platforms, not 2", len(list))
	}
}
