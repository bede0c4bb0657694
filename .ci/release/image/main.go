// Image adds a program to an OCI image that contains nothing else but certificates of authorities, /tmp and a user, as a layout in a
// folder and as an archive of it, without a container engine:
//
//	image --binary PATH --platform linux/arm64 --name ghcr.io/troupe-run/troupe:0.1.0 --version v0.1.0 --commit HASH \
//		--date 2026-01-02T03:04:05Z --out FOLDER --archive FILE
//
// The name is what an engine calls the image that it loads from the archive: the one under which it is pulled.
// The image has an entry for each platform that was added to the folder. Platforms of systems other than Linux are left out, so that
// it can be called for each binary of a release. Calls may run at the same time. The same inputs give the same bytes.
package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const (
	user    = "65532"
	program = "/usr/bin/troupe"
	source  = "https://github.com/troupe-run/troupe"
)

type options struct {
	binary, platform, name, version, commit, out, archive string
	date                                                  time.Time
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("image: ")
	var o options
	flag.StringVar(&o.binary, "binary", "", "the static program")
	flag.StringVar(&o.platform, "platform", "", "its platform, such as linux/amd64")
	flag.StringVar(&o.name, "name", "", "the image's name with its tag, as it is pulled")
	flag.StringVar(&o.version, "version", "", "its version")
	flag.StringVar(&o.commit, "commit", "", "its commit")
	date := flag.String("date", "", "the date of files and image, as in RFC 3339")
	flag.StringVar(&o.out, "out", "", "the folder of the layout")
	flag.StringVar(&o.archive, "archive", "", "the file of the archive")
	flag.Parse()
	var err error
	if o.date, err = time.Parse(time.RFC3339, *date); err != nil {
		log.Fatal(err)
	}
	o.date = o.date.UTC()
	if err := add(o); err != nil {
		log.Fatal(err)
	}
}

// add adds a platform to the image.
func add(o options) error {
	platform, err := v1.ParsePlatform(o.platform)
	if err != nil || platform.OS != "linux" {
		return err
	}
	img, err := build(o, platform)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(o.out), 0o755); err != nil {
		return err
	}
	lock, err := os.Create(o.out + ".lock")
	if err != nil {
		return err
	}
	defer lock.Close() // releases the lock
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	images, err := others(o.out, platform)
	if err != nil {
		return err
	}
	images = append(images, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: platform}})
	slices.SortFunc(images, func(a, b mutate.IndexAddendum) int {
		return cmp.Compare(a.Platform.String(), b.Platform.String())
	})
	all := mutate.IndexMediaType(mutate.AppendManifests(empty.Index, images...), types.OCIImageIndex)
	// The folder's own index names the image by one descriptor, which is that of all platforms. Podman before 4.0 takes the first
	// annotation for the whole name; later ones, Docker and containerd prefer the second.
	top := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: all, Descriptor: v1.Descriptor{
		Annotations: map[string]string{"org.opencontainers.image.ref.name": o.name, "io.containerd.image.name": o.name}}})
	next := o.out + ".next"
	if err := os.RemoveAll(next); err != nil {
		return err
	}
	if _, err := layout.Write(next, top); err != nil {
		return err
	}
	if err := os.RemoveAll(o.out); err != nil {
		return err
	}
	if err := os.Rename(next, o.out); err != nil {
		return err
	}
	return pack(o.out, o.archive, o.date)
}

// others are the images of other platforms that a layout has; none if there is no layout.
func others(folder string, but *v1.Platform) ([]mutate.IndexAddendum, error) {
	if _, err := os.Stat(folder); os.IsNotExist(err) {
		return nil, nil
	}
	top, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return nil, err
	}
	manifest, err := top.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Manifests) != 1 {
		return nil, fmt.Errorf("%s has %d images, not one", folder, len(manifest.Manifests))
	}
	all, err := top.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		return nil, err
	}
	if manifest, err = all.IndexManifest(); err != nil {
		return nil, err
	}
	var images []mutate.IndexAddendum
	for _, d := range manifest.Manifests {
		if d.Platform.Equals(*but) {
			continue
		}
		img, err := all.Image(d.Digest)
		if err != nil {
			return nil, err
		}
		// Read before the folder is replaced.
		if img, err = inMemory(img); err != nil {
			return nil, err
		}
		images = append(images, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: d.Platform}})
	}
	return images, nil
}

// build makes the image of a platform.
func build(o options, platform *v1.Platform) (v1.Image, error) {
	binary, err := os.ReadFile(o.binary)
	if err != nil {
		return nil, err
	}
	base, err := files(o.date,
		file{name: "etc/", mode: 0o755},
		file{name: "etc/group", mode: 0o644, content: []byte("root:x:0:\nnobody:x:" + user + ":\n")},
		file{name: "etc/passwd", mode: 0o644, content: []byte("root:x:0:0:root:/:/sbin/nologin\nnobody:x:" + user + ":" + user + ":nobody:/:/sbin/nologin\n")},
		file{name: "etc/ssl/", mode: 0o755},
		file{name: "etc/ssl/certs/", mode: 0o755},
		file{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, content: authorities()},
		file{name: "tmp/", mode: 0o1777},
	)
	if err != nil {
		return nil, err
	}
	own, err := files(o.date, file{name: "usr/", mode: 0o755}, file{name: "usr/bin/", mode: 0o755}, file{name: program[1:], mode: 0o755, content: binary})
	if err != nil {
		return nil, err
	}
	when := v1.Time{Time: o.date}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if img, err = mutate.Append(img,
		mutate.Addendum{Layer: base, History: v1.History{Created: when, CreatedBy: "certificates of authorities, the user nobody, /tmp"}},
		mutate.Addendum{Layer: own, History: v1.History{Created: when, CreatedBy: program}},
	); err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.Architecture, config.OS, config.Created = platform.Architecture, platform.OS, when
	config.Config = v1.Config{
		User:         user + ":" + user,
		Entrypoint:   []string{program},
		Env:          []string{"PATH=/usr/bin"},
		WorkingDir:   "/",
		StopSignal:   "SIGTERM",
		ExposedPorts: map[string]struct{}{"2222/tcp": {}, "2222/udp": {}}, // gossip is UDP
		Labels: map[string]string{
			"org.opencontainers.image.title":       "troupe",
			"org.opencontainers.image.description": "Servers of clusters that TensorFlow's own client drives",
			"org.opencontainers.image.version":     o.version,
			"org.opencontainers.image.revision":    o.commit,
			"org.opencontainers.image.created":     o.date.Format(time.RFC3339),
			"org.opencontainers.image.source":      source,
			"org.opencontainers.image.licenses":    "Apache-2.0",
		},
	}
	return mutate.ConfigFile(img, config)
}

// authorities are the certificates of Mozilla's authorities. Those that are trusted with a constraint are left out, since the file
// cannot express one.
func authorities() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			b.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return b.Bytes()
}

// file is one of a layer, which belongs to root; folders end in a slash.
type file struct {
	name    string
	mode    int64
	content []byte
}

// files makes a layer.
func files(date time.Time, all ...file) (v1.Layer, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range all {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.content)), ModTime: date, Format: tar.FormatPAX}
		if f.content == nil {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return layer(b.Bytes())
}

func layer(content []byte) (v1.Layer, error) {
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
		tarball.WithMediaType(types.OCILayer))
}

// inMemory reads an image, so that it no longer needs the files that it came from.
func inMemory(img v1.Image) (v1.Image, error) {
	layers, err := img.Layers()
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	out := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for i, l := range layers {
		r, err := l.Uncompressed()
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(r)
		if err := cmp.Or(err, r.Close()); err != nil {
			return nil, err
		}
		copied, err := layer(content)
		if err != nil {
			return nil, err
		}
		if out, err = mutate.Append(out, mutate.Addendum{Layer: copied, History: config.History[i]}); err != nil {
			return nil, err
		}
	}
	return mutate.ConfigFile(out, config)
}

// pack writes a folder into an archive, its files in the order of their names.
func pack(folder, archive string, date time.Time) (err error) {
	f, err := os.Create(archive)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, f.Close()) }()
	w := tar.NewWriter(f)
	if err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == folder {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		h := &tar.Header{Typeflag: tar.TypeDir, Name: filepath.ToSlash(name) + "/", Mode: 0o755, ModTime: date, Format: tar.FormatPAX}
		if d.IsDir() {
			return w.WriteHeader(h)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		h.Typeflag, h.Name, h.Mode, h.Size = tar.TypeReg, filepath.ToSlash(name), 0o644, int64(len(content))
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	}); err != nil {
		return err
	}
	return w.Close()
}
