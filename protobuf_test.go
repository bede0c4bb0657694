package troupe

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/internal/extent"
)

const module = "github.com/troupe-run/troupe"

// protoModule is the module of TensorFlow's messages. protoFiles is the part of it that is copied.
const (
	protoModule = "github.com/galeone/tensorflow/tensorflow/go"
	protoFiles  = "core/framework"
)

// conflictPolicy is the linker's flag that docs/embedding.md gives to programs with two packages of messages.
const conflictPolicy = "-X google.golang.org/protobuf/reflect/protoregistry.conflictPolicy=ignore"

// TestOtherPackagesOfTensorFlowsMessages builds a program that has TensorFlow's messages twice: those that Troupe uses,
// and a copy under another import path, as other modules publish it. It checks what docs/embedding.md says about this.
func TestOtherPackagesOfTensorFlowsMessages(t *testing.T) {
	if !extent.Check() {
		t.Skip("it links a program")
	}
	dir := otherProtos(t)
	program := filepath.Join(dir, "program")
	build := func(ldflags string) {
		t.Helper()
		cmd := exec.Command("go", "build", "-mod=mod", "-o", program, "-ldflags", ldflags, ".")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-trimpath", "GOPROXY=off", "GONOSUMDB=*", "GONOSUMCHECK=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go build: %v\n%s", err, out)
		}
	}
	run := func(env ...string) (stdout, stderr string, err error) {
		cmd := exec.CommandContext(t.Context(), program)
		cmd.Env = append(os.Environ(), env...)
		var out, log bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &log
		err = cmd.Run()
		return out.String(), log.String(), err
	}
	const policy, want = "GOLANG_PROTOBUF_REGISTRATION_CONFLICT=", "DT_FLOAT [3]\n"

	build("")
	if _, log, err := run(policy); err == nil || !strings.Contains(log, "already registered") {
		t.Errorf("without a policy: %v\n%s", err, log)
	}
	if out, log, err := run(policy + "ignore"); err != nil || out != want || log != "" {
		t.Errorf("with the environment variable: %v, %q\n%s", err, out, log)
	}
	if out, log, err := run(policy + "warn"); err != nil || out != want || !strings.Contains(log, "WARNING") {
		t.Errorf("with warnings: %v, %q\n%s", err, out, log)
	}
	build(conflictPolicy)
	if out, log, err := run(policy); err != nil || out != want || log != "" {
		t.Errorf("with the linker's flag: %v, %q\n%s", err, out, log)
	}
}

// otherProtos creates the module of testdata/otherprotos with the copy of the messages.
func otherProtos(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	root, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("testdata/otherprotos/main.go")
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile("go.sum")
	if err != nil {
		t.Fatal(err)
	}
	requirements := strings.Replace(string(own), "module "+module, "module otherprotos", 1)
	write(t, filepath.Join(dir, "go.mod"), []byte(requirements+"\nrequire "+module+" v0.0.0\n\nreplace "+module+" => "+root+"\n"))
	write(t, filepath.Join(dir, "go.sum"), sums)
	write(t, filepath.Join(dir, "main.go"), program)

	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", protoModule).Output()
	if err != nil {
		t.Fatal(err)
	}
	from := filepath.Join(strings.TrimSpace(string(out)), protoFiles)
	files, err := filepath.Glob(filepath.Join(from, "*", "*.pb.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no messages in %s: %v", from, err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		// Only the import paths change: the messages are embedded with lengths.
		content = bytes.ReplaceAll(content, []byte(` "`+protoModule+"/"+protoFiles+"/"), []byte(` "otherprotos/framework/`))
		write(t, filepath.Join(dir, "framework", filepath.Base(filepath.Dir(file)), filepath.Base(file)), content)
	}
	return dir
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
}
