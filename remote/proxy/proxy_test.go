package proxy_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/client"
	"github.com/troupe-run/troupe/remote/proxy"
	"github.com/troupe-run/troupe/remote/spec"
	"github.com/troupe-run/troupe/remote/spec/spectest"
)

// connectEnv makes the test binary a program that connects to an address and reports how long the connection lasts.
const connectEnv = "TROUPE_TEST_CONNECT"

func TestMain(m *testing.M) {
	if address := os.Getenv(connectEnv); address != "" {
		connect(address)
		return
	}
	goleak.VerifyTestMain(m)
}

// connect reports whether the other end closes the connection at once.
func connect(address string) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := c.SetReadDeadline(time.Now().Add(2 * time.Second)); err != nil {
		fmt.Println(err)
	}
	if _, err := c.Read(make([]byte, 1)); os.IsTimeout(err) {
		fmt.Println("carried")
		return
	}
	fmt.Println("refused")
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// identities returns the credentials of a server and of a client.
func identities(t *testing.T) (server, alice *access.Credentials) {
	t.Helper()
	a, ca, err := access.NewAuthority("test", time.Now().Add(2*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	authority := write("ca.pem", ca.Cert)
	load := func(file string, name access.Name) *access.Credentials {
		p, err := a.Issue(access.Request{Name: name, Hosts: []string{"127.0.0.1"}, Until: time.Now().Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		k, err := access.LoadCredentials(access.CredentialConfig{Log: quiet,
			CredentialFiles: access.CredentialFiles{Cert: write(file, p.Cert), Key: write(file+"-key", p.Key), CA: authority}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(k.Close)
		return k
	}
	return load("server", access.TaskName("worker", 0)), load("alice", access.ClientName("alice"))
}

func listen(t *testing.T, c proxy.Config) *proxy.Proxy {
	t.Helper()
	c.Log = quiet
	p, err := proxy.Listen(t.Context(), "127.0.0.1:0", c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// double runs x+x with n elements on the server at an address.
func double(ctx context.Context, address string, n int64) (sum float32, err error) {
	c, err := client.Dial(ctx, "grpc://"+address)
	if err != nil {
		return 0, err
	}
	defer c.Close(ctx)
	s := op.NewScope()
	x := op.Placeholder(s, tensor.Float32)
	y := op.Add(s, x, x)
	g, err := s.GraphDef()
	if err != nil {
		return 0, err
	}
	session, err := c.NewSession(ctx, g, nil)
	if err != nil {
		return 0, err
	}
	defer session.Close(ctx)
	values := make([]float32, n)
	values[n-1] = 21
	fed, err := tensor.FromSlice(tensor.Float32, tensor.Shape{n}, values)
	if err != nil {
		return 0, err
	}
	defer fed.Release()
	out, err := session.Run(ctx, map[string]*tensor.Tensor{x.Name(): fed}, []string{y.Name()}, nil)
	if err != nil {
		return 0, err
	}
	defer out[0].Release()
	return tensor.Of[float32](out[0])[n-1], nil
}

// startBehindProxy starts a server that requires TLS, and a proxy to it.
func startBehindProxy(t *testing.T) (*remote.Node, *proxy.Proxy) {
	t.Helper()
	server, alice := identities(t)
	s, err := spec.New(map[string]map[int]string{"worker": {0: spectest.Addresses(t, 1)[0]}})
	if err != nil {
		t.Fatal(err)
	}
	n, err := remote.Start(t.Context(), remote.Config{Spec: s, Job: "worker", Credentials: server, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return n, listen(t, proxy.Config{Target: n.Address(), Credentials: alice})
}

// TestCarries checks that a client without TLS runs steps on a server that requires it, with tensors of any size.
func TestCarries(t *testing.T) {
	n, p := startBehindProxy(t)
	for _, size := range []int64{1, 1000, 10_000_000} {
		if got, err := double(t.Context(), p.Address().String(), size); err != nil || got != 42 {
			t.Errorf("%d elements: %v, %v", size, got, err)
		}
	}
	if _, err := double(t.Context(), n.Address(), 1); status.CodeOf(err) != status.Unauthenticated {
		t.Errorf("without the proxy: %v", err)
	}
}

// TestCarriesStreams checks that a stream of requests, a call that waits and other calls share a connection through the proxy, as those of
// TensorFlow 2's client do.
func TestCarriesStreams(t *testing.T) {
	n, p := startBehindProxy(t)
	conn, err := grpc.NewClient("passthrough:///"+p.Address().String(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var state corepb.GetStatusResponse
	if err := conn.Invoke(ctx, "/tensorflow.WorkerService/GetStatus", &corepb.GetStatusRequest{}, &state); err != nil {
		t.Fatal(err)
	}
	cpu := state.DeviceAttributes[0]
	def := &corepb.ServerDef{JobName: "worker", Cluster: &corepb.ClusterDef{Job: []*corepb.JobDef{{Name: "worker", Tasks: map[int32]string{0: n.Address()}}}}}
	if err := conn.Invoke(ctx, "/tensorflow.eager.EagerService/CreateContext", &corepb.CreateContextRequest{ContextId: 1, ServerDef: def}, &corepb.CreateContextResponse{}); err != nil {
		t.Fatal(err)
	}
	fetched := make(chan error, 1)
	go func() { // before it is sent
		key := fmt.Sprintf("%s;%016x;/job:client/replica:0/task:0/device:CPU:0;x;0:0", cpu.Name, cpu.Incarnation)
		var a corepb.RecvTensorResponse
		err := conn.Invoke(ctx, "/tensorflow.WorkerService/RecvTensor", &corepb.RecvTensorRequest{StepId: 1, RendezvousKey: key, RequestId: 7}, &a)
		if n := len(a.GetTensor().GetTensorContent()); err == nil && n != 100_000 {
			err = fmt.Errorf("%d bytes were received", n)
		}
		fetched <- err
	}()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/tensorflow.eager.EagerService/StreamingEnqueue")
	if err != nil {
		t.Fatal(err)
	}
	value := &tensorpb.TensorProto{Dtype: tensor.Uint8.Proto(), TensorShape: tensor.Shape{100_000}.Proto(), TensorContent: make([]byte, 100_000)}
	const many = 50
	for id := range int64(many) {
		item := &corepb.QueueItem{Item: &corepb.QueueItem_SendTensor{SendTensor: &corepb.SendTensorOp{OpId: id + 1, DeviceName: cpu.Name, Tensors: []*tensorpb.TensorProto{value}}}}
		if err := stream.SendMsg(&corepb.EnqueueRequest{ContextId: 1, Queue: []*corepb.QueueItem{item}}); err != nil {
			t.Fatal(err)
		}
	}
	text := func(s string) *attrpb.AttrValue { return &attrpb.AttrValue{Value: &attrpb.AttrValue_S{S: []byte(s)}} }
	send := &corepb.Operation{Id: many + 1, Name: "_Send", Device: cpu.Name, Attrs: map[string]*attrpb.AttrValue{"T": {Value: &attrpb.AttrValue_Type{Type: value.Dtype}},
		"tensor_name": text("x"), "send_device": text(cpu.Name), "recv_device": text("/job:client/replica:0/task:0/device:CPU:0"),
		"send_device_incarnation": {Value: &attrpb.AttrValue_I{I: int64(cpu.Incarnation)}}, "client_terminated": {Value: &attrpb.AttrValue_B{}}}}
	send.OpInputs = []*corepb.Operation_Input{{Item: &corepb.Operation_Input_RemoteHandle{RemoteHandle: &corepb.RemoteTensorHandle{OpId: many, Device: cpu.Name}}}}
	if err := stream.SendMsg(&corepb.EnqueueRequest{ContextId: 1, Queue: []*corepb.QueueItem{{Item: &corepb.QueueItem_Operation{Operation: send}}}}); err != nil {
		t.Fatal(err)
	}
	for id := range many + 1 {
		if err := stream.RecvMsg(&corepb.EnqueueResponse{}); err != nil {
			t.Fatalf("request %d: %v", id, err)
		}
	}
	if err := <-fetched; err != nil {
		t.Error(err)
	}
	if err := errors.Join(stream.CloseSend(), stream.RecvMsg(&corepb.EnqueueResponse{})); !errors.Is(err, io.EOF) {
		t.Errorf("the stream ended with %v", err)
	}
}

// TestTellsWhyNot checks that if no server can be reached, the proxy answers the client at once, with the reason.
func TestTellsWhyNot(t *testing.T) {
	_, alice := identities(t)
	gone := spectest.Addresses(t, 1)[0]
	other, _ := identities(t)
	s, err := spec.New(map[string]map[int]string{"worker": {0: spectest.Addresses(t, 1)[0]}})
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := remote.Start(t.Context(), remote.Config{Spec: s, Job: "worker", Credentials: other, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Stop(context.Background())
	for name, c := range map[string]struct{ target, want string }{
		"nobody":               {gone, "connection refused"},
		"of another authority": {foreign.Address(), "certificate"},
	} {
		began := time.Now()
		_, err := double(t.Context(), listen(t, proxy.Config{Target: c.target, Credentials: alice}).Address().String(), 1)
		if status.CodeOf(err) != status.Unavailable || !strings.Contains(err.Error(), "could not reach "+c.target) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if d := time.Since(began); d > 5*time.Second {
			t.Errorf("%s: it took %v", name, d)
		}
	}
}

// TestClose checks that Close ends the forwarded connections.
// lines counts lines.
type lines struct{ n atomic.Int64 }

func (l *lines) Write(b []byte) (int, error) {
	l.n.Add(1)
	return len(b), nil
}

// TestConnectionsDoNotFillTheLog checks that those who connect in vain cannot fill the disk.
func TestConnectionsDoNotFillTheLog(t *testing.T) {
	_, alice := identities(t)
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := nobody.Close(); err != nil {
		t.Fatal(err)
	}
	var written lines
	p, err := proxy.Listen(t.Context(), "127.0.0.1:0", proxy.Config{Target: nobody.Addr().String(), Credentials: alice, Log: slog.New(slog.NewTextHandler(&written, nil))})
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		c, err := net.Dial("tcp", p.Address().String())
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if n := written.n.Load(); n == 0 || n > 400 {
		t.Errorf("1000 connections wrote %d lines", n)
	}
}

// TestCloseEndsConnections closes a proxy that carries a connection whose ends are both quiet.
func TestCloseEndsConnections(t *testing.T) {
	server, alice := identities(t)
	target, err := tls.Listen("tcp", "127.0.0.1:0", server.Server("h2"))
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	p, err := proxy.Listen(t.Context(), "127.0.0.1:0", proxy.Config{Target: target.Addr().String(), Credentials: alice, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	near, err := net.Dial("tcp", p.Address().String())
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	far, err := target.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	if _, err := far.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1)
	if _, err := near.Read(b); err != nil || b[0] != 1 {
		t.Fatalf("the proxy carried %v, %v", b, err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]net.Conn{"client's": near, "server's": far} {
		if _, err := c.Read(b); err == nil {
			t.Errorf("the %s connection is open", name)
		}
	}
}

func TestClose(t *testing.T) {
	_, alice := identities(t)
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	p, err := proxy.Listen(t.Context(), "127.0.0.1:0", proxy.Config{Target: mute.Addr().String(), Credentials: alice, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", p.Address().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	held, err := mute.Accept()
	if err != nil {
		t.Fatal(err)
	}
	held.Close()
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(c).ReadString('\n'); err == nil {
		t.Error("the connection is open")
	}
}
