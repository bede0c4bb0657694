// Otherprotos is a program that imports Troupe and another Go package of TensorFlow's messages. It runs a
// graph, and converts a message from one package to the other and back.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/op"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	othertensorpb "otherprotos/framework/tensor_go_proto"
	othertypespb "otherprotos/framework/types_go_proto"
)

func run(ctx context.Context) error {
	server, err := troupe.NewLocalServer(ctx, troupe.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	defer server.Stop(ctx)
	s := op.NewScope()
	sum := op.AddV2(s, op.Const(s, float32(1)), op.Const(s, float32(2)))
	graph, err := s.GraphDef()
	if err != nil {
		return err
	}
	client, err := troupe.Dial(ctx, server.Target())
	if err != nil {
		return err
	}
	defer client.Close(ctx)
	session, err := client.NewSession(ctx, graph, nil)
	if err != nil {
		return err
	}
	defer session.Close(ctx)
	three, err := troupe.Fetch[float32](ctx, session, nil, sum)
	if err != nil {
		return err
	}

	theirs := &othertensorpb.TensorProto{Dtype: othertypespb.DataType_DT_FLOAT, FloatVal: []float32{three}}
	b, err := proto.Marshal(theirs)
	if err != nil {
		return err
	}
	ours := &tensorpb.TensorProto{}
	if err := proto.Unmarshal(b, ours); err != nil {
		return err
	}
	text, err := prototext.Marshal(ours)
	if err != nil {
		return err
	}
	back := &othertensorpb.TensorProto{}
	if err := prototext.Unmarshal(text, back); err != nil {
		return err
	}
	json, err := protojson.Marshal(back)
	if err != nil {
		return err
	}
	again := &tensorpb.TensorProto{}
	if err := protojson.Unmarshal(json, again); err != nil {
		return err
	}
	if !proto.Equal(theirs, back) || !proto.Equal(ours, again) {
		return fmt.Errorf("%v became %v, and %v became %v", theirs, back, ours, again)
	}
	fmt.Println(again.GetDtype(), again.GetFloatVal())
	return nil
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
