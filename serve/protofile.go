package serve

import (
	"bytes"
	"errors"
	"os"
	"unicode/utf8"

	"github.com/troupe-run/troupe/graph/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
)

// maxProtoFile bounds the bytes of a file with a message.
const maxProtoFile = 64 << 20

// readProto reads m from a file, in binary or text form. Unknown fields are
// ignored in both: newer clients have more of them.
func readProto(path string, m proto.Message) error {
	info, err := os.Stat(path)
	if err == nil && info.Size() > maxProtoFile {
		return status.InvalidArgumentf("%s has %d bytes, more than the %d that a message may have", path, info.Size(), maxProtoFile)
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(path)
	}
	switch {
	case errors.Is(err, os.ErrNotExist):
		return status.Errorf(status.NotFound, "%s does not exist", path)
	case errors.Is(err, os.ErrPermission):
		return status.Errorf(status.PermissionDenied, "%v", err)
	case err != nil:
		return status.Errorf(status.Unknown, "%v", err)
	}
	if err := parseProto(data, m); err != nil {
		return status.InvalidArgumentf("%s does not hold a %s, neither binary nor as text: %v", path, m.ProtoReflect().Descriptor().FullName(), err)
	}
	return nil
}

// parseProto parses text or binary: data that looks like text is parsed as text first.
func parseProto(data []byte, m proto.Message) error {
	if !looksLikeText(data) {
		return proto.Unmarshal(data, m)
	}
	textErr := (prototext.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, m)
	if textErr == nil {
		return nil
	}
	// A small binary message may consist of printable characters. Text with a mistake in it is
	// very unlikely to be a binary message with known fields.
	proto.Reset(m)
	if err := proto.Unmarshal(data, m); err == nil && known(m) {
		return nil
	}
	proto.Reset(m)
	return textErr
}

func looksLikeText(data []byte) bool {
	return utf8.Valid(data) && bytes.IndexFunc(data, func(r rune) bool {
		return r < ' ' && r != '\n' && r != '\r' && r != '\t' || r == 0x7f
	}) < 0
}

// known reports whether a parsed message has only known fields.
func known(m proto.Message) bool {
	return len(m.ProtoReflect().GetUnknown()) == 0
}
