package serve

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

func serverDef() *corepb.ServerDef {
	return &corepb.ServerDef{JobName: "local", Protocol: "grpc",
		Cluster: &corepb.ClusterDef{Job: []*corepb.JobDef{{Name: "local", Tasks: map[int32]string{0: "localhost:0"}}}}}
}

func TestMessagesInFiles(t *testing.T) {
	binary, err := proto.Marshal(serverDef())
	if err != nil {
		t.Fatal(err)
	}
	newer := protowire.AppendString(protowire.AppendTag(binary[:len(binary):len(binary)], 99, protowire.BytesType), "of a newer client")
	const text = `cluster { job { name: "local" tasks { key: 0 value: "localhost:0" } } } job_name: "local" protocol: "grpc"`
	for name, data := range map[string][]byte{"binary": binary, "newer binary": newer, "text": []byte(text),
		"newer text": []byte(text + "\n# a comment\nfield_of_a_newer_client { a: 1 }\n")} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "def")
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			got := &corepb.ServerDef{}
			if err := readProto(path, got); err != nil {
				t.Fatal(err)
			}
			got.ProtoReflect().SetUnknown(nil)
			if !proto.Equal(got, serverDef()) {
				t.Errorf("read as %v", got)
			}
		})
	}
}

func TestFilesThatHoldNoMessage(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		data string
		code status.Code
		want string
	}{
		"absent":  {"", status.NotFound, "does not exist"},
		"typo":    {"job_name: local\n", status.InvalidArgument, "does not hold a tensorflow.ServerDef, neither binary nor as text"},
		"garbage": {"\x00\xff\x01\x02", status.InvalidArgument, "neither binary nor as text"},
	} {
		path := filepath.Join(dir, name)
		if c.data != "" {
			if err := os.WriteFile(path, []byte(c.data), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		err := readProto(path, &corepb.ServerDef{})
		if status.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFilesThatAreTooLarge(t *testing.T) {
	path := filepath.Join(t.TempDir(), "def")
	if err := os.WriteFile(path, []byte(`job_name: "local"`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, maxProtoFile+1); err != nil {
		t.Fatal(err)
	}
	err := readProto(path, &corepb.ServerDef{})
	if status.CodeOf(err) != status.InvalidArgument || !strings.Contains(err.Error(), "has 67108865 bytes, more than the 67108864") {
		t.Errorf("%v", err)
	}
}

func TestSmallBinaryMessageThatLooksLikeText(t *testing.T) {
	// operation_timeout_in_ms = 88: a tag and a value that are both printable.
	config := &corepb.ConfigProto{}
	if err := parseProto([]byte("\x58\x58"), config); err != nil || config.OperationTimeoutInMs != 88 {
		t.Errorf("%v, %v", config, err)
	}
}

func FuzzMessageFiles(f *testing.F) {
	f.Add([]byte(`job_name: "local"`))
	f.Add([]byte("\n\x0b\n\tlocalhost"))
	f.Fuzz(func(t *testing.T, data []byte) {
		def := &corepb.ServerDef{}
		if err := parseProto(data, def); err != nil && def.JobName != "" && looksLikeText(data) {
			t.Errorf("an unreadable file left %v", def)
		}
	})
}
