"""Stand-in for CMSSW's configuration language: as much of it as production configurations here use."""


class _Parameters:
    def __init__(self, *_type, **parameters):
        self.__dict__.update(parameters)

    def parameterNames_(self):
        return [name for name in vars(self) if not name.startswith("_")]


class PSet(_Parameters):
    pass


class Source(_Parameters):
    pass


class Service(_Parameters):
    pass


class OutputModule(_Parameters):
    pass


class SecSource(_Parameters):
    pass


class _Typed(_Parameters):
    def __init__(self, type_name, **parameters):
        super().__init__(**parameters)
        self._type_name = type_name

    def type_(self):
        return self._type_name


class EDProducer(_Typed):
    pass


class EDFilter(_Typed):
    pass


class EndPath:
    def __init__(self, module):
        self.module = module


class Process:
    def __init__(self, name):
        self.name_ = name
        self.maxEvents = PSet(input=int32(-1))

    def outputModules_(self):
        return self._of(OutputModule)

    def producers_(self):
        return self._of(EDProducer)

    def filters_(self):
        return self._of(EDFilter)

    def _of(self, kind):
        return {name: value for name, value in vars(self).items() if isinstance(value, kind)}


def _number(least, most):
    def convert(value):
        if type(value) is not int or not least <= value <= most:
            raise ValueError(f"{value!r} is out of range")
        return value

    return convert


def string(value):
    if type(value) is not str:
        raise TypeError(f"{value!r} is no string")
    return value


def vstring(*values):
    return [string(value) for value in values]


int32, uint32 = _number(-(2**31), 2**31 - 1), _number(0, 2**32 - 1)


class untracked:
    PSet = PSet
    int32 = staticmethod(int32)
    uint32 = staticmethod(uint32)
    string = staticmethod(string)
    vstring = staticmethod(vstring)
    VLuminosityBlockRange = staticmethod(vstring)
    bool = staticmethod(bool)
