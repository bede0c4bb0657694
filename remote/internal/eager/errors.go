package eager

import (
	"strings"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/http2"
	"github.com/troupe-run/troupe/remote/internal/wire"
)

const (
	// unknownHandle begins the text of errors about handles that a context does not have.
	unknownHandle = "Unable to find the relevant tensor remote_handle"
	// remoteTarget begins the line of a text that names the task which could not be reached. Clients decide by it what to do.
	remoteTarget = "Additional GRPC error information from remote target "
	// maxTarget bounds that line, in bytes, in a text that is cut.
	maxTarget = 512

	sourceKey = "type.googleapis.com/tensorflow.core.platform.ErrorSourceProto"
)

// toGRPC converts an error as wire.ToGRPC does. Texts do not begin with the task, unlike those of sessions: clients take a CANCELLED or
// UNAVAILABLE with the name of a task for its loss, and add the task that they called. Texts that are cut keep the line which names the task
// that could not be reached, and errors about unknown handles say where they come from, as TensorFlow's do.
func toGRPC(err error) error {
	if err == nil {
		return nil
	}
	e := status.From(err)
	text := strings.TrimPrefix(e.Message, "From "+e.Task()+":\n")
	text = wire.CutKeeping(text, targetLine(text))
	converted := wire.ToGRPC(status.New(e.Code, text))
	if e.Code == status.InvalidArgument && strings.Contains(text, unknownHandle) {
		return &sourced{grpcstatus.Convert(converted)}
	}
	return converted
}

// poisoned returns the error of a request that comes after a failed op without outputs.
func poisoned(err error) error {
	e := status.From(err)
	return &status.Error{Code: e.Code, Message: e.Message + "\n\tEncountered when executing an operation using EagerExecutor. " +
		"This error cancels all future operations and poisons their output tensors.", Derived: e.Derived}
}

// targetLine returns the line of a text that names a remote target; empty if there is none.
func targetLine(text string) string {
	i := strings.Index(text, remoteTarget)
	if i < 0 {
		return ""
	}
	line, _, _ := strings.Cut(text[i:], "\n")
	return line[:min(len(line), maxTarget)]
}

// sourced is an error of the part of TensorFlow that keeps handles.
type sourced struct{ status *grpcstatus.Status }

func (s *sourced) Error() string { return s.status.Message() }

// GRPCStatus returns the code and the text.
func (s *sourced) GRPCStatus() *grpcstatus.Status { return s.status }

// StatusDetails returns the contents of the trailer grpc-status-details-bin, which TensorFlow uses for a message of its own.
func (s *sourced) StatusDetails() []byte { return remoteManager }

// remoteManager names the source of errors about unknown handles.
var remoteManager = func() []byte {
	source, err := proto.Marshal(&corepb.ErrorSourceProto{ErrorSource: corepb.ErrorSourceProto_EAGER_REMOTE_MGR})
	if err == nil {
		var b []byte
		if b, err = proto.Marshal(&corepb.GrpcPayloadContainer{Payloads: map[string][]byte{sourceKey: source}}); err == nil {
			return b
		}
	}
	panic(err)
}()

var _ http2.Detailed = (*sourced)(nil)
