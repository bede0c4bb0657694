package e2e

import (
	"context"
	"math"
	"time"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
)

// master is a bare client of tensorflow.MasterService, which sends raw messages.
type master struct{ conn *grpc.ClientConn }

// dial prepares a connection; calls wait until it is open or their context ends.
func dial(addr string) (*master, error) {
	conn, err := grpc.NewClient("passthrough:///"+addr,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.5, MaxDelay: 100 * time.Millisecond},
			MinConnectTimeout: time.Second,
		}),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true), grpc.MaxCallRecvMsgSize(math.MaxInt32)))
	if err != nil {
		return nil, err
	}
	return &master{conn}, nil
}

func (m *master) close() { _ = m.conn.Close() }

func (m *master) call(ctx context.Context, method string, q, a proto.Message) error {
	return m.conn.Invoke(ctx, "/tensorflow.MasterService/"+method, q, a)
}

func (m *master) createSession(ctx context.Context, g *graphpb.GraphDef, filters ...string) (string, error) {
	if g == nil {
		g = &graphpb.GraphDef{}
	}
	a := &corepb.CreateSessionResponse{}
	err := m.call(ctx, "CreateSession", &corepb.CreateSessionRequest{GraphDef: g, Config: &corepb.ConfigProto{DeviceFilters: filters}}, a)
	return a.SessionHandle, err
}

func (m *master) closeSession(ctx context.Context, handle string) error {
	return m.call(ctx, "CloseSession", &corepb.CloseSessionRequest{SessionHandle: handle}, &corepb.CloseSessionResponse{})
}

func (m *master) listDevices(ctx context.Context, handle string) ([]string, error) {
	a := &corepb.ListDevicesResponse{}
	if err := m.call(ctx, "ListDevices", &corepb.ListDevicesRequest{SessionHandle: handle}, a); err != nil {
		return nil, err
	}
	var names []string
	for _, d := range append(a.LocalDevice, a.RemoteDevice...) {
		names = append(names, d.Name)
	}
	return names, nil
}

// runStep runs a step; an error in the body is returned as a gRPC error.
func (m *master) runStep(ctx context.Context, q *corepb.RunStepRequest) (*corepb.RunStepResponse, error) {
	a := &corepb.RunStepResponse{}
	err := m.call(ctx, "RunStep", q, a)
	return a, err
}
