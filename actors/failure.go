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
	code := status.Code(f.Code)
	if f.Code <= int32(status.OK) || f.Code > int32(status.Unauthenticated) {
		code = status.Unknown
	}
	return &status.Error{Code: code, Message: f.Message, Derived: f.Derived}
}
