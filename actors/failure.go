package actors

import (
	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
)

func failure(err error) *wire.Failure {
	if err == nil {
		return nil
	}
	e := status.From(err)
	return &wire.Failure{Code: int32(e.Code), Message: e.Message, Derived: e.Derived}
}

func failed(f *wire.Failure) error {
	if f == nil {
		return nil
	}
	return &status.Error{Code: status.Code(f.Code), Message: f.Message, Derived: f.Derived}
}
