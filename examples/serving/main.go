// Serving answers HTTP requests with a model that was trained and saved by TensorFlow in Python (make.py). It is a single binary and needs
// no Python.
//
//	go run ./examples/serving              shows two requests and their answers
//	go run ./examples/serving :8080        serves until it is stopped
//	go run . -model model                  in a copy of this folder
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// service answers requests of the form {"sizes": [[sepal length, sepal width, petal length, petal width], …]}, in cm.
type service struct {
	model   *troupe.Model
	session *troupe.Session
}

type question struct{ Sizes [][]float32 }

type answer struct {
	Species     []string
	Probability []float32
}

func (s *service) classify(ctx context.Context, q question) (a answer, err error) {
	sizes, err := tensor.From(q.Sizes)
	if err != nil {
		return a, err
	}
	defer sizes.Release()
	out, err := s.model.Run(ctx, s.session, "serving_default", map[string]*tensor.Tensor{"sizes": sizes})
	if err != nil {
		return a, err
	}
	defer out["species"].Release()
	defer out["probability"].Release()
	if a.Species, err = tensor.To[[]string](out["species"]); err != nil {
		return a, err
	}
	a.Probability, err = tensor.To[[]float32](out["probability"])
	return a, err
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q question
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	a, err := s.classify(r.Context(), q)
	switch status.CodeOf(err) {
	case status.OK:
		if err := json.NewEncoder(w).Encode(a); err != nil {
			log.Printf("%s did not get its answer: %v", r.RemoteAddr, err)
		}
	case status.InvalidArgument:
		http.Error(w, err.Error(), http.StatusBadRequest)
	default:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// open starts a server in this process and loads the model into a session on it.
func open(ctx context.Context, dir string) (*service, *troupe.Server, error) {
	model, err := troupe.LoadModel(dir)
	if err != nil {
		return nil, nil, err
	}
	server, err := troupe.NewLocalServer(ctx, troupe.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, nil, err
	}
	session, err := server.NewSession(ctx, model.Graph(), nil)
	if err == nil {
		err = model.Restore(ctx, session)
	}
	return &service{model, session}, server, err
}

func run(ctx context.Context, out io.Writer, dir, address string) (err error) {
	service, server, err := open(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop(ctx)) }()
	if address != "" {
		return (&http.Server{Addr: address, Handler: service, ReadHeaderTimeout: 10 * time.Second}).ListenAndServe()
	}
	for _, request := range []string{`{"sizes": [[5.1, 3.5, 1.4, 0.2], [6.7, 3.1, 5.6, 2.4]]}`, `{"sizes": [[5.1, 3.5]]}`} {
		w := httptest.NewRecorder()
		service.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", bytes.NewBufferString(request)))
		fmt.Fprintf(out, "%s\n  %d %s", request, w.Code, w.Body)
	}
	return nil
}

func main() {
	dir := flag.String("model", "examples/serving/model", "folder of a SavedModel")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *dir, flag.Arg(0)); err != nil {
		log.Fatal(err)
	}
}
