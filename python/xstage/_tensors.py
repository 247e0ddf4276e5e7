"""What operations ask of their tensors."""


def check_tensor(name, tensor, shape, dtype, device):
    """ValueError naming the value and the rule, before the device sees an address."""
    import torch  # here, so that plans can be made where there is no PyTorch

    if not isinstance(tensor, torch.Tensor):
        raise ValueError(f"{name} is a {type(tensor).__name__}: it must be a torch.Tensor")
    if tensor.dtype != dtype:
        raise ValueError(f"{name} has dtype {tensor.dtype}: it must be {dtype}")
    if tuple(tensor.shape) != shape:
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}: it must be {shape}")
    if tensor.device != torch.device("cuda", device):
        raise ValueError(f"{name} is on {tensor.device}: it must be on cuda:{device}, the device of this rank")
    if not tensor.is_contiguous():
        raise ValueError(f"{name} has strides {tuple(tensor.stride())}: it must be contiguous")
    if tensor.requires_grad and torch.is_grad_enabled():
        raise ValueError(f"{name} requires grad: this operation has no backward; call it under torch.no_grad()")
